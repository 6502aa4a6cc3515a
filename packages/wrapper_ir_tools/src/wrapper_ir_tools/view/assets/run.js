// Panels about a run (times by op and kernel, saved values), the program, and the differences of two.

function RunPanel({index, act}) {
  const slow = useMemo(
    () =>
      index.rows
        .filter(row => row.seconds)
        .sort((a, b) => b.seconds - a.seconds)
        .slice(0, 200),
    [index],
  );
  const kernels = useMemo(() => {
    const sums = new Map();
    for (const row of index.rows)
      if (row.seconds) {
        const name = row.kernel || row.op,
          [sum, runs] = sums.get(name) || [0, 0];
        sums.set(name, [sum + row.seconds, runs + 1]);
      }
    return [...sums].sort((a, b) => b[1][0] - a[1][0]).slice(0, 200);
  }, [index]);
  const values = index.data.values || [];
  if (!index.timed && !values.length)
    return html`<p class="note">This page has no run. <code>wir view m.wir --profile times.json</code>
      ${" adds the times of "}<code>wir profile</code>${", "}<code>--values FOLDER</code>
      ${" the tensors that debug values saved."}</p>`;
  const share = seconds => `${((100 * seconds) / index.total).toPrecision(3)} %`;
  return html`${
    index.timed
      ? html`<h3>${timeText(index.total)} in all timed ops</h3>
    <table id="by-kernel"><${Head} names=${["time", "share", "runs", "kernel or operator"]} /><tbody>
    ${kernels.map(([name, [seconds, runs]]) => html`<tr><td class="n">${timeText(seconds)}</td><td class="n">
    ${share(seconds)}</td><td class="n">${runs}</td><td>
    <button class="link" onClick=${() => act.search(name)}>${name}</button></td></tr>`)}</tbody></table>
    <h3>By op, the slowest first</h3>
    <table id="by-op"><tbody>
    ${slow.map(row => html`<tr><td class="n">${timeText(row.seconds)}</td><td class="n">${share(row.seconds)}
    </td><td><button class="link" onClick=${() => act.go(index.side, row.number)}>
    ${rowName(index, row.number)}</button></td><td><code>${shortText(row.text)}</code></td></tr>`)}</tbody>
    </table>`
      : ""
  }
    ${values.length ? html`<h3>Saved values</h3><${SavedValues} saved=${values} />` : ""}`;
}

function AboutPanel({index}) {
  const {data} = index;
  return html`<h3>${data.title}</h3><${Facts} rows=${data.facts} />
    ${(data.notes || []).map(note => html`<p class="note">${note}</p>`)}
    ${(data.sources || []).filter(s => s.missing).length ? html`<h3>Source that the page lacks</h3>
    <table id="missing"><tbody>
    ${data.sources.filter(s => s.missing).map(s => html`<tr><td>${s.name}</td><td>${s.missing}</td></tr>`)}
    </tbody></table>` : ""}
    <pre class="whole">${data.declarations}</pre>
    <h3>Constants</h3><pre class="whole">${(data.constants || [])
      .slice(0, 500)
      .map(([, text]) => text)
      .join(
        "\n",
      )}${(data.constants || []).length > 500 ? `\nand ${commas(data.constants.length - 500)} more` : ""}
        </pre>`;
}

function ChangesPanel({diff, lines, act}) {
  const counts = diff.functions.map(({name, pairs}) => [
    name,
    pairs.filter(p => p[1] < 0).length,
    pairs.filter(p => p[0] < 0).length,
    pairs.filter(p => !p[2] && p[0] >= 0 && p[1] >= 0).length,
  ]);
  const whole = diff.functions.length;
  const count = lines.changes.length;
  const summary = count === 1 ? "1 place differs" : `${commas(count)} places differ`;
  const rule =
    "Lines are the same if their text is, and if aligned lines define their values, under any name; " +
    "provenance is ignored.";
  return html`<h3>${count ? summary : "The functions do not differ"}</h3><p class="note">${rule}</p>
    <table id="changes"><${Head} names=${["function", "removed", "added", "changed"]} /><tbody>
    ${counts.map(([name, ...n]) => html`<tr><td><button class="link"
    onClick=${() => act.goFunction(0, name)}>@${name}</button></td>
      ${n.map(c => html`<td class="n">${commas(c)}</td>`)}</tr>`)}</tbody></table>
    ${whole && (diff.parts || []).map(part => html`<details open=${diff.parts.length < 4}><summary>
    ${part.kind} ${part.name}</summary><${TextPair} part=${part} /></details>`)}`;
}

const KEYS = [
  ["Up, Down or k, j", "previous, next line"],
  ["Page Up, Page Down, Home, End", "further"],
  ["Left, Right", "fold, unfold; Left again selects the enclosing group"],
  ["f", "fold or unfold everything"],
  ["/", "search; Enter and Shift+Enter go through the matches"],
  ["v", "next value of this line"],
  ["n, p", "next, previous use of the value"],
  ["d", "definition of the value"],
  ["b", "back to the previous line"],
  ["Enter", "into the function that the line calls, else its kernel"],
  ["]  [", "next, previous difference"],
  ["x", "the other program"],
  ["1 to 6", "panels"],
  ["t", "theme: system, light, dark"],
  ["?", "these keys"],
  ["Escape", "close, leave the search"],
];

function Help({close}) {
  const box = useRef(null);
  useEffect(() => box.current.focus(), []);
  return html`<div class="over-all" onClick=${close}>
    <div class="help" role="dialog" aria-label="Keys" tabindex="-1" ref=${box}
      onClick=${event => event.stopPropagation()}>
    <h2>Keys</h2><table><tbody>${KEYS.map(([keys, what]) => html`<tr><th>${keys}</th><td>${what}</td></tr>`)}
    </tbody></table><button onClick=${close}>Close</button></div></div>`;
}
