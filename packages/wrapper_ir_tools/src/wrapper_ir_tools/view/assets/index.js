// Lookup tables of a program: rows by op, uses by value, data flow of rows, times.

class ProgramIndex {
  constructor(data, side) {
    this.data = data;
    this.side = side;
    this.rows = [];
    this.functions = data.functions;
    this.kernels = new Map((data.kernels || []).map(kernel => [kernel.name, kernel]));
    this.operators = new Map(data.operators || []);
    this.constants = new Map(data.constants || []);
    this.sources = new Map((data.sources || []).map(source => [source.name, source]));
    this.launches = new Map();
    this.usesByValue = new Map();
    this.rowsByPlace = new Map();
    for (const [index, found] of this.functions.entries()) this.addFunction(found, index);
    this.addTimes(data.times || []);
    this.addValues(data.values || []);
  }

  addFunction(found, index) {
    found.index = index;
    found.start = this.rows.length;
    found.rowOf = new Map();
    for (const row of found.rows) {
      Object.assign(row, {
        side: this.side,
        number: this.rows.length,
        owner: found,
        before: [],
        after: [],
        seconds: 0,
        facts: [],
        saved: [],
      });
      row.first ??= -1;
      row.stop ??= -1;
      row.values ??= [];
      row.serves ??= [];
      row.prov = row.prov === undefined ? {} : this.data.provenance[row.prov];
      for (let op = row.first; op < row.stop; op++) found.rowOf.set(op, row.number);
      for (const [name, role] of row.values)
        addTo(this.usesByValue, this.valueKey(row, name), {row: row.number, role});
      for (const place of row.prov.locations || []) addTo(this.rowsByPlace, place, row.number);
      if (row.kernel) addTo(this.launches, row.kernel, row.number);
      this.rows.push(row);
    }
    found.stop = this.rows.length;
    for (const [source, target, value] of found.edges || []) {
      this.rows[found.start + target].before.push([source < 0 ? -1 : found.start + source, value]);
      if (source >= 0) this.rows[found.start + source].after.push([found.start + target, value]);
    }
  }

  addTimes(times) {
    this.timed = times.length > 0;
    this.total = 0;
    this.slowest = 0;
    for (const {function: name, op, seconds, facts} of times) {
      const row = this.rowAt(name, op);
      if (!row) continue;
      row.seconds += seconds;
      row.facts.push(...(facts || []));
      this.total += seconds;
      this.slowest = Math.max(this.slowest, row.seconds);
    }
  }

  addValues(values) {
    const groups = new Map();
    for (const value of values) {
      const exact =
        value.op >= 0 ? this.rowAt(value.function || this.functions[0].name, value.op) : undefined;
      if (exact) exact.saved.push(value);
      else addTo(groups, `${value.phase}\n${value.kernel}\n${value.value}`, value);
    }
    for (const found of groups.values()) {
      const rows = this.rowsOf(found[0]);
      // with one value per launch they pair in order; otherwise every launch shows all of them
      rows.forEach((row, n) => row.saved.push(...(rows.length === found.length ? [found[n]] : found)));
    }
  }

  // Rows that may have saved the value: launches with it, or the program's parameters and returns.
  rowsOf({kernel, phase, value}) {
    const holds = row => row.values.some(([name]) => name === value),
      [main] = this.functions;
    if (kernel) return (this.launches.get(kernel) || []).map(number => this.rows[number]).filter(holds);
    return main.rows.filter(row => holds(row) && (phase === "inputs" ? row.first < 0 : row.op === "Return"));
  }

  rowAt(name, op) {
    const found = this.functions.find(f => f.name === name);
    const number = found && found.rowOf.get(op);
    return number === undefined ? undefined : this.rows[number];
  }

  valueKey(row, name) {
    return this.constants.has(name) ? `\n${name}` : `${row.owner.index}\n${name}`;
  }
  uses(row, name) {
    return this.usesByValue.get(this.valueKey(row, name)) || [];
  }
  definition(row, name) {
    return this.uses(row, name).find(use => use.role === "defines");
  }

  get haystacks() {
    this.hay ??= this.rows.map(row =>
      [row.text, row.kernel || "", ...Object.values(row.prov).flat()].join("\n").toLowerCase(),
    );
    return this.hay;
  }
}

function addTo(map, key, item) {
  const held = map.get(key);
  if (held) held.push(item);
  else map.set(key, [item]);
}

const commas = n => n.toLocaleString("en-US");
function bytesText(n) {
  const unit = [
    ["GiB", 2 ** 30],
    ["MiB", 2 ** 20],
    ["KiB", 2 ** 10],
  ].find(u => n >= u[1]);
  return unit ? `${(n / unit[1]).toFixed(2)} ${unit[0]}` : `${commas(n)} B`;
}
function timeText(seconds) {
  const [unit, size] = [
    ["s", 1],
    ["ms", 1e-3],
    ["\u00b5s", 1e-6],
  ].find(u => seconds >= u[1]) || ["ns", 1e-9];
  return `${(seconds / size).toPrecision(3)} ${unit}`;
}
