// The model's source beside the program: source lines of an op, and ops of a source line.

function Source({index, row, state, act}) {
  const places = row ? row.prov.locations || row.serves : [];
  const [chosen, choose] = useState(0);
  useEffect(() => choose(0), [row]);
  const place = places[Math.min(chosen, places.length - 1)] || state.lastPlace || firstPlace(index);
  if (!place)
    return html`<section class="source" aria-label="Source"><h2>Source</h2>
      <p class="note">The program does not say where its ops come from.</p></section>`;
  const [file, at] = splitPlace(place),
    source = index.sources.get(file);
  const chips = places.map(
    (found, number) =>
      html`<button class=${found === place ? "chip on" : "chip"} title=${found}
        onClick=${() => choose(number)}>${found.slice(found.lastIndexOf("/") + 1)}</button>`,
  );
  const said = row && row.first >= 0 && !row.prov.locations ? row.reason || "no source line is known" : "";
  const changed = source && (source.changed || []).includes(at);
  const notes = html`${said ? html`<span class="note" id="reason">
    ${said}${places.length ? "" : "; the last line is shown"}
    </span>` : ""}${changed ? html`<span class="warning"
      id="changed">the file has changed since the capture: this line was <code>
        ${source.recorded.find(([n]) => n === at)[1].trim()}</code></span>` : ""}`;
  return html`<section class="source" aria-label="Source"><h2>Source <span class="note">${file}
    </span> ${chips} ${notes}</h2>
    ${
      source && !source.missing
        ? html`<${SourceLines} source=${source} at=${places.length ? at : 0} index=${index} file=${file}
          act=${act} />`
        : html`<${Places} index=${index} source=${source} file=${file} at=${at} act=${act} />`
    }</section>`;
}

const splitPlace = place => {
  const at = place.lastIndexOf(":");
  return /:\d+$/.test(place) ? [place.slice(0, at), Number(place.slice(at + 1))] : [place, 0];
};
const firstPlace = index => {
  for (const row of index.rows) if (row.prov.locations) return row.prov.locations[0];
  return "";
};

function SourceLines({source, at, index, file, act}) {
  const lines = useMemo(
    () =>
      (source.segments || []).flatMap(([first, texts], number) => [
        ...(number || first > 1 ? [{number: 0, text: "\u2026"}] : []),
        ...texts.map((text, n) => ({number: first + n, text})),
      ]),
    [source],
  );
  const reveal = useMemo(
    () => ({
      index: at
        ? lines.findIndex(line => line.number === at)
        : lines.findIndex(line => index.rowsByPlace.has(`${file}:${line.number}`)),
    }),
    [at, source],
  );
  const mark = number => {
    const selected = number && number === at ? "selected " : "";
    return `${selected}${index.rowsByPlace.has(`${file}:${number}`) ? "known" : ""}`;
  };
  return html`<${Code} id="source" lines=${lines} language="python" label=${`Source of ${file}`}
    reveal=${reveal} mark=${mark} onLine=${number => act.fromSource(`${file}:${number}`)} />`;
}

// Replaces a missing file: the recorded locations, and the number of program lines of each.
function Places({index, source, file, at, act}) {
  const locations = useMemo(
    () =>
      [...index.rowsByPlace]
        .filter(([place]) => splitPlace(place)[0] === file)
        .sort((a, b) => splitPlace(a[0])[1] - splitPlace(b[0])[1]),
    [index, file],
  );
  const recorded = new Map((source && source.recorded) || []);
  const reason = (source && source.missing) || "unknown";
  return html`<div class="scroll" id="places">
    <p class="note">The text of ${file} is not in this page (${reason}). Places that the program recorded:</p>
    <table><tbody>
    ${locations.map(([place, rows]) => html`<tr><td><button
    class=${splitPlace(place)[1] === at ? "chip on" : "chip"} onClick=${() => act.fromSource(place)}>${place}
      </button></td><td><code>${recorded.get(splitPlace(place)[1]) || ""}</code></td><td class="n">
      ${commas(rows.length)} lines</td></tr>`)}</tbody></table></div>`;
}
