// The lines of the list: rows of one program or aligned rows of two, and the groups that fold them.

class Lines {
  constructor(indexes, diff) {
    this.indexes = indexes;
    this.all = [];
    this.groups = [];
    this.lineOf = indexes.map(index => new Array(index.rows.length).fill(-1));
    if (diff) this.pair(diff);
    else this.list(indexes[0]);
    this.all.forEach((line, number) =>
      line.rows.forEach((row, side) => {
        if (row) this.lineOf[side][row.number] = number;
      }),
    );
    const longest = this.all.reduce(
      (most, line) => Math.max(most, line.rows[0] ? line.rows[0].text.length : 0),
      0,
    );
    this.width = Math.min(longest, 260);
  }

  list(index) {
    for (const found of index.functions) {
      this.groups.push({
        start: found.start,
        stop: found.stop,
        name: `@${found.name}`,
        depth: 0,
        kind: "function",
      });
      for (const [start, stop, name, depth] of found.groups || [])
        this.groups.push({
          start: found.start + start,
          stop: found.start + stop,
          name,
          depth: depth + 1,
          kind: "module",
        });
      for (const row of found.rows) this.all.push({rows: [row], same: true});
    }
  }

  pair(diff) {
    const CONTEXT = 3,
      LEAST = 5;
    for (const {name, pairs} of diff.functions) {
      const sides = this.indexes.map(index => index.functions.find(f => f.name === name));
      const begin = this.all.length,
        group = {start: begin, stop: begin + pairs.length, name: `@${name}`, depth: 0, kind: "function"};
      this.groups.push(group);
      for (const [old, fresh, same] of pairs)
        this.all.push({
          rows: [old < 0 ? null : sides[0].rows[old], fresh < 0 ? null : sides[1].rows[fresh]],
          same,
        });
      let start = begin;
      for (let at = begin; at <= group.stop; at++) {
        if (at < group.stop && this.all[at].same) continue;
        const low = start === begin ? start + 1 : start + CONTEXT,
          high = at === group.stop ? at : at - CONTEXT;
        if (high - low >= LEAST)
          this.groups.push({
            start: low,
            stop: high,
            name: `${commas(high - low)} equal lines`,
            depth: 1,
            kind: "equal",
          });
        start = at + 1;
      }
    }
    this.changes = this.all.flatMap((line, number) =>
      !line.same && (number === 0 || this.all[number - 1].same) ? [number] : [],
    );
  }

  // Visible items in order: the line of a group is -1 - group, others are line numbers.
  // `only` is a selection of lines, without groups.
  visible(folded, only) {
    if (only) return only;
    const items = [];
    let at = 0;
    const upTo = stop => {
      for (; at < stop; at++) items.push(at);
    };
    for (const [number, group] of this.groups.entries()) {
      if (group.start < at) continue; // inside a folded group
      upTo(group.start);
      items.push(-1 - number);
      if (folded.has(number)) at = group.stop;
    }
    upTo(this.all.length);
    return items;
  }

  // The groups around a line, outermost first.
  around(line) {
    const groups = [];
    for (const [number, group] of this.groups.entries()) {
      if (group.start > line) break;
      if (line < group.stop) groups.push(number);
    }
    return groups;
  }

  search(query) {
    const terms = query.toLowerCase().split(/\s+/).filter(Boolean);
    if (!terms.length) return null;
    const hays = this.indexes.map(index => index.haystacks);
    const fits = row => row && terms.every(term => hays[row.side][row.number].includes(term));
    return this.all.flatMap((line, number) => (line.rows.some(fits) ? [number] : []));
  }
}
