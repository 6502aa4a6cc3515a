// Panels about the selected line: the op, its data flow, its kernel.

const Rows = ({index, numbers, act, near, most = 200}) =>
  html`${numbers.slice(0, most).map((number, n) => html`${n ? ", " : ""}
    <button class="link" onClick=${() => act.go(index.side, number)}>${rowName(index, number, near)}
    </button>`)}${numbers.length > most ? ` and ${commas(numbers.length - most)} more` : ""}`;

// The number of a line, with its function unless the line `near` is in the same one.
function rowName(index, number, near) {
  const row = index.rows[number];
  const owner =
    index.functions.length > 1 && !(near && near.owner === row.owner) ? `@${row.owner.name} ` : "";
  return row.first < 0 ? `${owner}parameter` : `${owner}${row.first}`;
}
const shortText = text => (text.trim().length > 70 ? `${text.trim().slice(0, 69)}\u2026` : text.trim());

function Facts({rows}) {
  return html`<table class="facts"><tbody>
    ${rows.filter(([, held]) => held && held.length !== 0).map(([name, held]) => html`<tr><th>${name}</th><td>
    ${held}</td></tr>`)}</tbody></table>`;
}

const opRange = row => (row.stop - row.first > 1 ? `${row.first}-${row.stop - 1}` : `${row.first}`);

function OpPanel({index, row, act}) {
  const held =
    row.owner.memory && row.first >= 0 ? heldText(row.first, row.owner.memory.held[row.first]) : "";
  const {prov} = row;
  const chips = (items, go) =>
    (items || []).map(item => html`<button class="chip" onClick=${() => go(item)}>${item}</button> `);
  return html`<pre class="whole">${row.text.trim()}</pre><${Facts} rows=${[
    [
      "op",
      row.op
        ? `${row.op}, ${opRange(row)} of @${row.owner.name}`
        : `@${row.owner.name}`,
    ],
    ["modules", chips(prov.modules, act.search)],
    ["source nodes", chips(prov.nodes, act.search)],
    ["source operators", chips(prov.ops, act.search)],
    ["places", chips(prov.locations, act.fromSource)],
    ["serves", row.reason ? html`${row.reason} ${chips(row.serves, act.fromSource)}` : ""],
    ["in the compiler", prov.frontend_name],
    [
      "calls",
      (row.calls || []).map(
        name =>
          html`<button class="link" onClick=${() => act.goFunction(index.side, name)}>@${name}</button> `,
      ),
    ],
    ["memory while it runs", held],
    [
      "time",
      row.seconds
        ? `${timeText(row.seconds)}, ${((100 * row.seconds) / index.total).toPrecision(3)} % of the run`
        : "",
    ],
    ...row.facts,
  ]} />${row.saved.length ? html`<h3>Saved values</h3><${SavedValues} saved=${row.saved} />` : ""}`;
}

function FlowPanel({index, row, act, value}) {
  const rows = row.values.map(([name, role]) => {
    const uses = index.uses(row, name),
      later = uses.filter(use => use.row > row.number),
      earlier = uses.filter(use => use.row < row.number);
    const definition = index.definition(row, name);
    const step = (use, text) =>
      html`<button class="link" disabled=${!use} onClick=${() => act.go(index.side, use.row, name)}>${text}
        </button>`;
    return html`<tr class=${name === value ? "selected" : ""}><td>
      <button class="link value" onClick=${() => act.setValue(name)}>%${name}</button></td><td>${role}</td>
      <td>
      ${definition ? html`<${Rows} index=${index} numbers=${[definition.row]} near=${row} act=${act}
      />` : index.constants.has(name) ? "constant" : ""}</td>
      <td>${step(earlier[earlier.length - 1], "previous")} ${step(later[0], "next")}</td>
      <td><${Rows} index=${index} numbers=${uses.filter(use => use.role !== "defines").map(use => use.row)}
        near=${row} act=${act} most=${40} /></td></tr>`;
  });
  return html`<${Neighbours} index=${index} row=${row} act=${act} />
    <table id="flow"><${Head} names=${["value", "here", "defined", "other uses", "used at"]} /><tbody>${rows}
    </tbody></table>
    ${value && index.constants.has(value) ? html`<pre class="whole">${index.constants.get(value)}
    </pre>` : ""}`;
}

// Draws the op between its producers and its consumers.
function Neighbours({index, row, act}) {
  const MOST = 7,
    W = 250,
    H = 34,
    GAP = 70;
  const merged = edges => {
    const groups = new Map();
    for (const [number, name] of edges) addTo(groups, number, name);
    return [...groups];
  };
  const before = merged(row.before),
    after = merged(row.after);
  const tall = Math.max(1, Math.min(MOST, before.length), Math.min(MOST, after.length)),
    height = tall * H + 22;
  const y = (n, count) => 4 + ((tall - Math.min(MOST, count)) * H) / 2 + n * H;
  const middle = y(0, 1);
  const node = (x, top, number, names, kind) => {
    const label =
      number < 0
        ? `constant %${names[0]}`
        : `${rowName(index, number, row)}  ${index.rows[number].text.trim()}`;
    const go = () => {
      if (number >= 0) act.go(index.side, number);
    };
    return html`<g class=${`node ${kind}`} role="button" tabindex="0" aria-label=${label} onClick=${go}
      onKeyDown=${event => {
      if (event.key === "Enter") go();
    }}>
      <rect x=${x} y=${top} width=${W} height=${H - 8} rx="4" /><text x=${x + 6} y=${top + 17}>
      ${label.length > 36 ? `${label.slice(0, 35)}\u2026` : label}</text><title>${label}</title></g>`;
  };
  const curve = (x1, y1, x2, y2) => `M${x1},${y1}C${x1 + GAP / 2},${y1} ${x2 - GAP / 2},${y2} ${x2},${y2}`;
  const edge = (x1, y1, x2, y2, names) =>
    html`<g class="edge"><path d=${curve(x1, y1 + H / 2 - 4, x2, y2 + H / 2 - 4)} />
      <title>${names.map(n => `%${n}`).join(", ")}</title></g>`;
  const more = (x, count) =>
    count > MOST ? html`<text class="more" x=${x} y=${height - 4}>and ${count - MOST} more</text>` : "";
  return html`<svg id="graph" role="group" aria-label="Neighbours in the data flow"
    viewBox=${`0 0 ${3 * W + 2 * GAP} ${height}`} style=${{maxHeight: `${height}px`}}>
    ${before.slice(0, MOST).map(([number, names], n) => [
      edge(W, y(n, before.length), W + GAP, middle, names),
      node(0, y(n, before.length), number, names, "before"),
    ])}
    ${after.slice(0, MOST).map(([number, names], n) => [
      edge(2 * W + GAP, middle, 2 * (W + GAP), y(n, after.length), names),
      node(2 * (W + GAP), y(n, after.length), number, names, "after"),
    ])}
    ${node(W + GAP, middle, row.number, [], "here")}
    ${more(0, before.length)}${more(2 * (W + GAP), after.length)}
    </svg>`;
}

function KernelPanel({index, row, act, other}) {
  const kernel = index.kernels.get(row.kernel),
    declared = index.operators.get(row.kernel);
  if (!row.kernel) return html`<p class="note">This line runs no kernel and no operator.</p>`;
  const all = index.launches.get(row.kernel),
    at = all.indexOf(row.number);
  const step = (number, text) =>
    html`<button class="link" disabled=${number === undefined} onClick=${() => act.go(index.side, number)}>
      ${text}</button>`;
  const params = kernel ? kernel.params : [];
  const pointers = params
    .map((p, n) => [p, n])
    .filter(([p]) => /^(read|write|readwrite) /.test(p))
    .map(([, n]) => n);
  const extent = n => (row.extents || [])[pointers.indexOf(n)] || "";
  const launch = html`<table id="launch"><${Head}
    names=${["parameter", "argument", ...(row.extents ? ["bytes"] : [])]} /><tbody>
    ${(row.args || []).map((arg, n) => html`<tr><td><code>${params[n] || ""}</code></td><td><code>
    ${named(arg, null, name => act.setValue(name))}</code></td>
    ${row.extents ? html`<td class="n">${extent(n)}</td>` : ""}</tr>`)}</tbody></table>`;
  const run = `. Run ${at + 1} of ${commas(all.length)} in the program: `;
  return html`<p><b>${row.kernel}</b>${kernel ? `, ${kernel.kind}` : ", operator"}${run}
    ${step(all[at - 1], "previous")} ${step(all[at + 1], "next")}</p>
    ${launch}${row.grid ? html`<p>grid numbers: <code>${row.grid.join(", ")}</code></p>` : ""}
    ${declared ? html`<pre class="whole">${declared}</pre>` : ""}
    ${kernel ? html`<pre class="whole">${kernel.declaration}</pre>` : ""}
    ${other ? html`<${TextPair} part=${other} />` : kernel && kernel.source ? html`<${KernelSource}
    kernel=${kernel} />` : ""}`;
}

function KernelSource({kernel}) {
  const lines = useMemo(
    () =>
      kernel.source
        .trim()
        .split("\n")
        .map((text, n) => ({number: n + 1, text})),
    [kernel],
  );
  return html`<div class="boxed" style=${{height: `${Math.min(lines.length + 1, 400) * ROW}px`}}>
    <${Code} id="kernel" lines=${lines} language=${kernel.kind === "triton" ? "python" : "cpp"}
      label=${`Source of ${kernel.name}`} /></div>`;
}

// Two texts of a diff, side by side.
function TextPair({part}) {
  const half = (lines, at) =>
    html`<span class=${at < 0 ? "half none" : "half"}>${at < 0 ? "" : lines[at]}</span>`;
  return html`<div class="pair" role="table" aria-label=${`${part.kind} ${part.name}, old and new`}>
    ${part.pairs.map(
    ([old, fresh, same]) =>
      html`<div role="row" class=${same ? "" : old < 0 ? "added" : fresh < 0 ? "removed" : "changed"}>
        ${half(part.old, old)}${half(part.new, fresh)}</div>`,
  )}</div>`;
}

function SavedValues({saved}) {
  return html`<table class="saved"><${Head} names=${["value", "when", "what", "file"]} /><tbody>
    ${saved.map(v => html`<tr><td><code>%${v.value}</code></td><td>${v.phase || ""}</td><td><code>${v.summary}
    </code></td><td>${v.file}</td></tr>`)}</tbody></table>`;
}
