// Memory over time: a curve below the program, and a map of a function's storages over ops and addresses.

function curve(held, x, y) {
  let text = `M${x(0)},${y(0)}`;
  held.forEach((n, at) => {
    if (at === 0 || n !== held[at - 1]) text += `V${y(n).toFixed(1)}`;
    if (at + 1 === held.length || n !== held[at + 1]) text += `H${x(at + 1).toFixed(1)}`;
  });
  return `${text}V${y(0)}Z`;
}

const opAt = (event, count) => {
  const box = event.currentTarget.getBoundingClientRect();
  return Math.max(0, Math.min(count - 1, Math.floor(((event.clientX - box.left) / box.width) * count)));
};

// A function that frees donated arguments may hold a negative number of bytes.
const heldText = (op, bytes) =>
  bytes < 0
    ? `op ${op}: ${bytesText(-bytes)} of the caller's memory freed`
    : `op ${op}: ${bytesText(bytes)} held`;

function MemoryStrip({index, owner, row, act}) {
  const {memory} = owner;
  const [over, setOver] = useState(-1);
  if (!memory)
    return html`<footer class="strip"><p class="note">Memory of @${owner.name} is not known.</p></footer>`;
  const W = 1000,
    H = 100,
    count = Math.max(1, memory.held.length),
    most = Math.max(1, memory.held[memory.peak_op] || 0);
  const least = useMemo(() => memory.held.reduce((a, b) => Math.min(a, b), 0), [memory]);
  const x = at => (W * at) / count,
    y = n => H - ((H - 4) * (n - least)) / (most - least);
  const path = useMemo(() => curve(memory.held, x, y), [memory]);
  const op = over >= 0 ? over : row && row.owner === owner ? row.first : -1;
  const peak = memory.peak_op || 0;
  const text = op >= 0 ? heldText(op, memory.held[op]) : "";
  return html`<footer class="strip" aria-label="Memory over time"><div class="legend">
    <b>Memory of @${owner.name}</b>
    <button class="link"
      onClick=${() => act.goOp(index.side, owner.name, peak)}>peak ${bytesText(most)} at op ${peak}</button>
        <span id="held">${text}</span></div>
    <svg id="strip" viewBox=${`0 0 ${W} ${H}`} preserveAspectRatio="none" role="img"
      aria-label="Bytes held while each op runs"
      onMouseMove=${event => setOver(opAt(event, count))} onMouseLeave=${() => setOver(-1)}
      onClick=${event => act.goOp(index.side, owner.name, opAt(event, count))}>
      <path class="area" d=${path} />
      ${least < 0 ? html`<line class="zero" x1="0" x2=${W} y1=${y(0)} y2=${y(0)} />` : ""}
      <line class="peak" x1=${x(peak + 0.5)} x2=${x(peak + 0.5)} y1="0" y2=${H} />
      ${row && row.owner === owner && row.first >= 0 ? html`<rect class="here" x=${x(row.first)}
      width=${Math.max(2, x(row.stop) - x(row.first))} y="0" height=${H} />` : ""}
      ${over >= 0 ? html`<line class="over" x1=${x(over + 0.5)} x2=${x(over + 0.5)} y1="0" y2=${H} />` : ""}
      </svg></footer>`;
}

function MemoryPanel({index, owner, row, act}) {
  const {memory} = owner;
  if (!memory) return html`<p class="note">Memory of @${owner.name} is not known.</p>`;
  const op = row && row.first >= 0 ? row.first : memory.peak_op || 0;
  const held = (memory.storages || [])
    .filter(s => s.begin <= op && op < s.end)
    .sort((a, b) => b.bytes - a.bytes);
  return html`<${StorageMap} index=${index} owner=${owner} op=${op} act=${act} />
    <h3>${heldText(op, memory.held[op] || 0)}</h3>
    <table id="storages"><${Head} names=${["bytes", "storage", "kind", "from op", "to op"]} /><tbody>${held
      .slice(0, 300)
      .map(
        s => html`<tr>
      <td class="n">${commas(s.bytes)}</td><td>%${s.name}</td><td>${s.kind}${s.pool ? ` in %${s.pool}` : ""}
      </td>
      <td><button class="link" onClick=${() => act.goOp(index.side, owner.name, s.begin)}>${s.begin}</button>
      </td><td><button class="link" onClick=${() => act.goOp(index.side, owner.name, s.end - 1)}>${s.end - 1}
      </button></td></tr>`,
      )}</tbody></table>`;
}

function StorageMap({index, owner, op, act}) {
  const MOST = 3000,
    W = 1000,
    H = 240,
    {memory} = owner;
  const drawn = useMemo(() => {
    const all = [...(memory.storages || [])]
      .sort((a, b) => b.bytes * (b.end - b.begin) - a.bytes * (a.end - a.begin))
      .slice(0, MOST);
    const top = Math.max(1, ...all.map(s => s.address + s.bytes)),
      count = Math.max(1, memory.held.length);
    all.sort((a, b) => (a.kind === "pool") - (b.kind === "pool"));
    return all.map(
      s => html`<rect class=${`storage ${s.kind}`} data-name=${s.name} x=${(W * s.begin) / count}
        width=${Math.max(0.7, (W * (s.end - s.begin)) / count)}
      y=${H - (H * (s.address + s.bytes)) / top} height=${Math.max(0.5, (H * s.bytes) / top)}>
        <title>%${s.name}: ${bytesText(s.bytes)}, ${s.kind}, ops ${s.begin}-${s.end - 1}</title></rect>`,
    );
  }, [memory]);
  const count = Math.max(1, memory.held.length);
  const total = (memory.storages || []).length;
  const omitted = total > MOST ? ` The largest ${commas(MOST)} of ${commas(total)} are drawn.` : "";
  return html`<svg id="map" viewBox=${`0 0 ${W} ${H}`} preserveAspectRatio="none" role="img"
    aria-label="Storages over ops and addresses"
    onClick=${event => act.goOp(index.side, owner.name, opAt(event, count))}>
    ${drawn}<line class="here" x1=${(W * (op + 0.5)) / count} x2=${(W * (op + 0.5)) / count} y1="0" y2=${H} />
    </svg>
    <p class="note">Across: ops of @${owner.name}. Up: addresses in one memory.${omitted}</p>`;
}
