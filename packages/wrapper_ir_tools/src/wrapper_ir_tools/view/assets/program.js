// The list of lines of one program, or of two side by side.

function Program({lines, items, state, act, hits}) {
  const pairs = lines.indexes.length > 1;
  const index = items.indexOf(state.line);
  const reveal = useMemo(() => ({index}), [index, state.revealed]);
  const chosen = new Set(
    state.value
      ? lines.indexes[state.side]
          .uses(selectedRow(lines, state) || {owner: {}}, state.value)
          .map(use => use.row)
      : [],
  );
  // rows that stay visible while the list scrolls are rendered once
  const drawn = useMemo(() => new Map(), [items, state, hits]);
  const draw = (at, top) => {
    if (!drawn.has(at)) drawn.set(at, drawNew(at, top));
    return drawn.get(at);
  };
  const drawNew = (at, top) => {
    const item = items[at];
    return item < 0
      ? html`<${GroupLine} key=${item} id=${`line${item}`} group=${lines.groups[-1 - item]}
        number=${-1 - item} folded=${state.folded.has(-1 - item)} chosen=${state.line === item} top=${top}
        lines=${lines} act=${act} />`
      : html`<${ProgramLine} key=${item} item=${item} line=${lines.all[item]} top=${top} state=${state}
        act=${act} pairs=${pairs}
          slowest=${lines.indexes.map(i => i.slowest)} hit=${hits && hits.has(item)} uses=${chosen}
          depth=${lines.depths ? lines.depths[item] : 0} />`;
  };
  return html`<${VirtualList} id="program" role="tree" label="Program" count=${items.length} draw=${draw}
    reveal=${reveal}
    width=${pairs ? 0 : lines.width + 12} active=${`line${state.line}`} />`;
}

const selectedRow = (lines, state) => (state.line >= 0 ? lines.all[state.line].rows[state.side] : null);

function GroupLine({group, number, folded, chosen, top, lines, act, id}) {
  const seconds =
    lines.indexes.length === 1 && lines.indexes[0].timed
      ? lines.indexes[0].rows.slice(group.start, group.stop).reduce((sum, row) => sum + row.seconds, 0)
      : 0;
  const count = group.kind === "equal" ? "" : `${commas(group.stop - group.start)} lines`;
  return html`<div id=${id} role="treeitem" aria-level=${group.depth + 1} aria-expanded=${!folded}
    aria-selected=${chosen} class=${`row group ${group.kind}${chosen ? " selected" : ""}`}
    style=${{top: `${top}px`}}
    onClick=${() => {
      act.select(-1 - number);
      act.fold(number);
    }}>
    <span class="gutter"></span>
    ${lines.indexes.some(i => i.timed) && lines.indexes.length === 1 ? html`<span class="no-time">
    </span>` : ""}<span class="what" style=${{paddingLeft: `${group.depth * 2}ch`}}><span class="arrow">
    ${folded ? "\u25b8" : "\u25be"}</span> ${group.name} <span class="note">
    ${count}${seconds ? `, ${timeText(seconds)}` : ""}</span></span></div>`;
}

function ProgramLine({item, line, top, state, act, pairs, slowest, hit, uses, depth}) {
  const selected = state.line === item;
  const same =
    line.same || !pairs
      ? ""
      : line.rows[0] && line.rows[1]
        ? " changed"
        : line.rows[0]
          ? " removed"
          : " added";
  return html`<div id=${`line${item}`} role="treeitem" aria-level=${depth + 1} aria-selected=${selected}
    class=${`row${selected ? " selected" : ""}${hit ? " hit" : ""}${same}`} style=${{top: `${top}px`}}>
    ${line.rows.map(
      (
        row,
        side,
      ) => html`<div
        class=${`half${selected && pairs && side === state.side ? " active" : ""}${row ? "" : " none"}`}
        onClick=${() => act.select(item, row ? side : 1 - side)}>
      ${
        row &&
        html`<span class="gutter">
          ${row.saved.length ? html`<span class="dot" title="saved values">
          </span>` : ""}${row.first >= 0 ? row.first : ""}</span>
        ${slowest[side] ? html`<span class=${row.seconds ? "time" : "no-time"}
        title=${row.seconds ? timeText(row.seconds) : ""}>
          ${row.seconds ? html`<span style=${{width: `${(100 * row.seconds) / slowest[side]}%`}}>
          </span>` : ""}</span>` : ""}
        <span class=${`what${side === state.side && uses.has(row.number) ? " use" : ""}`}
          style=${{paddingLeft: `${depth * 2}ch`}}>${named(
          row.text.slice(0, 400),
          side === state.side ? state.value : null,
          (name, event) => {
            event.stopPropagation();
            act.value(item, side, name);
          },
        )}</span>`
      }
    </div>`,
    )}</div>`;
}
