// The page: its state and actions, keyboard shortcuts, and layout.

const THEMES = ["system", "light", "dark"];
const stored = (key, value) => {
  try {
    if (value === undefined) return localStorage.getItem(key);
    localStorage.setItem(key, value);
  } catch {
    /* no storage for pages of files */
  }
  return null;
};

function step(state, change) {
  const next = {...state, ...(typeof change === "function" ? change(state) : change)};
  if (next.line !== state.line || next.side !== state.side) {
    next.revealed = state.revealed + 1;
    if (!next.walking) next.past = [...state.past.slice(-199), [state.line, state.side]];
  }
  next.walking = false;
  return next;
}

function actions(lines, set, itemsOf) {
  const rowOf = (line, side) => (line >= 0 ? lines.all[line].rows[side] : null);
  const unfolded = (folded, line) => {
    const open = lines.around(line).filter(number => folded.has(number));
    return open.length ? new Set([...folded].filter(number => !open.includes(number))) : folded;
  };
  const place = (state, line, side, more = {}) => {
    const row = rowOf(line, side),
      known = row && row.prov.locations ? row.prov.locations[0] : state.lastPlace;
    const value = row && row.values.some(([name]) => name === state.value) ? state.value : null;
    return {
      line,
      side,
      value,
      lastPlace: known,
      folded: unfolded(state.folded, line),
      owner: row ? row.owner : state.owner,
      ...more,
    };
  };
  const act = {
    set,
    select: (line, side) => set(state => (line < 0 ? {line} : place(state, line, side ?? state.side))),
    fold: number =>
      set(state => {
        const folded = new Set(state.folded);
        if (!folded.delete(number)) folded.add(number);
        return {folded};
      }),
    foldAll: () =>
      set(state => ({
        folded: state.folded.size
          ? new Set()
          : new Set(lines.groups.flatMap((group, number) => (group.depth ? [number] : []))),
      })),
    go: (side, number, value) =>
      set(state => place(state, lines.lineOf[side][number], side, {only: false, ...(value ? {value} : {})})),
    goOp: (side, name, op) => {
      const row = lines.indexes[side].rowAt(name, op);
      if (row) act.go(side, row.number);
    },
    goFunction: (side, name) => {
      const found = lines.indexes[side].functions.find(f => f.name === name);
      if (found) act.go(side, found.start);
    },
    value: (line, side, name) => set(state => place(state, line, side, {value: name, tab: "flow"})),
    setValue: name => set({value: name}),
    search: query => set({query, typed: query}),
    fromSource: where =>
      set(state => {
        const numbers = lines.indexes[state.side].rowsByPlace.get(where) || [];
        if (!numbers.length) return {};
        const here = numbers.indexOf(
          rowOf(state.line, state.side) ? rowOf(state.line, state.side).number : -1,
        );
        return place(state, lines.lineOf[state.side][numbers[(here + 1) % numbers.length]], state.side);
      }),
    move: by =>
      set(state => {
        const items = itemsOf(state),
          at = items.indexOf(state.line),
          line = items[Math.max(0, Math.min(items.length - 1, (at < 0 ? 0 : at) + by))];
        if (line === undefined) return {};
        return line < 0 ? {line} : place(state, line, rowOf(line, state.side) ? state.side : 1 - state.side);
      }),
    inward: open =>
      set(state => {
        const here = state.line < 0 ? -1 - state.line : -1;
        if (here >= 0 && state.folded.has(here) === open) {
          const folded = new Set(state.folded);
          if (open) folded.delete(here);
          else folded.add(here);
          return {folded};
        }
        if (open) return {};
        const outer =
          here >= 0
            ? lines
                .around(lines.groups[here].start)
                .filter(n => n < here)
                .pop()
            : lines.around(state.line).pop();
        return outer === undefined ? {} : {line: -1 - outer};
      }),
    use: by =>
      set(state => {
        const row = rowOf(state.line, state.side),
          name = state.value || (row && row.values.length && row.values[0][0]);
        if (!row || !name) return {};
        const uses = lines.indexes[state.side].uses(row, name).map(use => use.row);
        const next = by > 0 ? uses.find(n => n > row.number) : uses.filter(n => n < row.number).pop();
        return next === undefined
          ? {value: name}
          : place({...state, value: name}, lines.lineOf[state.side][next], state.side, {value: name});
      }),
    definition: () =>
      set(state => {
        const row = rowOf(state.line, state.side),
          name = state.value || (row && row.values.length && row.values[0][0]);
        const found = row && name && lines.indexes[state.side].definition(row, name);
        return found ? place(state, lines.lineOf[state.side][found.row], state.side, {value: name}) : {};
      }),
    nextValue: () =>
      set(state => {
        const row = rowOf(state.line, state.side),
          names = row ? row.values.map(([name]) => name) : [];
        return names.length
          ? {value: names[(names.indexOf(state.value) + 1) % names.length], tab: "flow"}
          : {};
      }),
    back: () =>
      set(state => {
        const past = [...state.past],
          last = past.pop();
        return last
          ? {line: last[0], side: last[1], past, walking: true, folded: unfolded(state.folded, last[0])}
          : {};
      }),
    enter: () =>
      set(state => {
        if (state.line < 0) {
          const folded = new Set(state.folded),
            n = -1 - state.line;
          if (!folded.delete(n)) folded.add(n);
          return {folded};
        }
        const row = rowOf(state.line, state.side),
          callee = row && row.calls && lines.indexes[state.side].functions.find(f => f.name === row.calls[0]);
        return callee ? place(state, lines.lineOf[state.side][callee.start], state.side) : {tab: "kernel"};
      }),
    match: (by, found) =>
      set(state => {
        if (!found || !found.length) return {};
        const line =
          by > 0
            ? (found.find(n => n > state.line) ?? found[0])
            : (found.filter(n => n < state.line).pop() ?? found[found.length - 1]);
        return place(state, line, rowOf(line, state.side) ? state.side : 1 - state.side);
      }),
    theme: () =>
      set(state => {
        const theme = THEMES[(THEMES.indexOf(state.theme) + 1) % 3];
        stored("wir-view-theme", theme);
        return {theme};
      }),
    otherSide: () =>
      set(state =>
        state.line >= 0 && lines.indexes.length > 1 && rowOf(state.line, 1 - state.side)
          ? place(state, state.line, 1 - state.side)
          : {},
      ),
  };
  return act;
}

const KEY_ACTIONS = {
  ArrowDown: act => act.move(1),
  j: act => act.move(1),
  ArrowUp: act => act.move(-1),
  k: act => act.move(-1),
  PageDown: act => act.move(25),
  PageUp: act => act.move(-25),
  Home: act => act.move(-1e9),
  End: act => act.move(1e9),
  ArrowRight: act => act.inward(true),
  ArrowLeft: act => act.inward(false),
  f: act => act.foldAll(),
  n: act => act.use(1),
  p: act => act.use(-1),
  d: act => act.definition(),
  v: act => act.nextValue(),
  b: act => act.back(),
  Enter: act => act.enter(),
  "]": (act, lines) => act.match(1, lines.changes),
  "[": (act, lines) => act.match(-1, lines.changes),
  x: act => act.otherSide(),
  t: act => act.theme(),
  "?": act => act.set({help: true}),
};

function usePage(data) {
  const lines = useMemo(() => {
    const combined = new Lines(
      data.programs.map((program, side) => new ProgramIndex(program, side)),
      data.diff,
    );
    combined.depths = new Array(combined.all.length).fill(0);
    for (const group of combined.groups)
      for (let at = group.start; at < group.stop; at++) combined.depths[at] = group.depth + 1;
    return combined;
  }, []);
  const [state, set] = useReducer(step, null, () => {
    const start = {
      line: -1,
      side: 0,
      value: null,
      tab: data.diff ? "changes" : "op",
      folded: new Set(),
      query: "",
      typed: "",
      only: false,
      theme: stored("wir-view-theme") || "system",
      help: false,
      past: [],
      revealed: 0,
      lastPlace: "",
      owner: lines.indexes[0].functions[0],
    };
    if (data.diff)
      start.folded = new Set(
        lines.groups.flatMap((group, number) => (group.kind === "equal" ? [number] : [])),
      );
    const linked = /^#(\d)\/(.*)\/(\d+)$/.exec(location.hash),
      index = linked && lines.indexes[linked[1]];
    const row = index && index.rowAt(decodeURIComponent(linked[2]), Number(linked[3]));
    return row
      ? {
          ...start,
          line: lines.lineOf[index.side][row.number],
          side: index.side,
          owner: row.owner,
          folded: new Set(),
          revealed: 1,
        }
      : start;
  });
  const found = useMemo(() => lines.search(state.query), [state.query]);
  const itemsOf = useRef();
  itemsOf.current = now => lines.visible(now.folded, now.only && found ? found : null);
  const items = useMemo(() => itemsOf.current(state), [state.folded, state.only && found]);
  const act = useMemo(() => actions(lines, set, now => itemsOf.current(now)), []);
  return {lines, state, found, items, act};
}

function App({data}) {
  const {lines, state, found, items, act} = usePage(data);
  const search = useRef(null);
  useEffect(() => {
    document.documentElement.dataset.theme = state.theme;
  }, [state.theme]);
  const row = selectedRow(lines, state),
    index = lines.indexes[state.side];
  useEffect(() => {
    if (row && row.first >= 0)
      try {
        history.replaceState(null, "", `#${state.side}/${encodeURIComponent(row.owner.name)}/${row.first}`);
      } catch {
        /* a page without an address */
      }
  }, [state.line, state.side]);
  useEffect(() => {
    const wait = setTimeout(() => act.set({query: state.typed}), 60);
    return () => clearTimeout(wait);
  }, [state.typed]);
  const tabs = [
    ["op", "Op"],
    ["flow", "Data flow"],
    ["kernel", "Kernel"],
    ["memory", "Memory"],
    ["run", "Run"],
    data.diff ? ["changes", "Changes"] : ["about", "Program"],
  ];
  useEffect(() => {
    const onKey = event => {
      const inside = what => event.target instanceof Element && event.target.closest(what);
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const typing = event.target === search.current;
      if (event.key === "Escape") {
        act.set({help: false, typed: typing ? "" : state.typed, only: false});
        document.getElementById("program").focus();
        return;
      }
      if (typing) {
        if (event.key === "Enter") act.match(event.shiftKey ? -1 : 1, lines.search(search.current.value));
        return;
      }
      if ((event.key === "Enter" || event.key === " ") && inside("button, summary, [role=button]")) return;
      const panel = inside(".list:not(#program), .scroll");
      if (panel && /^(Arrow|Page|Home|End)/.test(event.key)) return;
      if (event.key === "/") {
        search.current.focus();
        search.current.select();
        event.preventDefault();
        return;
      }
      if (/^[1-6]$/.test(event.key)) {
        act.set({tab: tabs[event.key - 1][0]});
        return;
      }
      const run = KEY_ACTIONS[event.key];
      if (run) {
        run(act, lines);
        event.preventDefault();
      }
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  });
  return html`<${Header} data=${data} state=${state} act=${act} found=${found} search=${search} lines=${lines}
    />
    <main><section class="left">
    ${data.diff ? html`<h2 class="titles">${data.programs.map(p => html`<span>${p.title}</span>`)}</h2>` : ""}
    <${Program} lines=${lines} items=${items} state=${state} act=${act}
      hits=${useMemo(() => found && new Set(found), [found])} /></section>
      <section class="right"><${Source} index=${index} row=${row} state=${state} act=${act} />
      <${Panels} data=${data} lines=${lines} index=${index} row=${row} state=${state} act=${act} tabs=${tabs}
        /></section></main>
    <${MemoryStrip} key=${`${state.side} ${state.owner.name}`} index=${index}
      owner=${index.functions.find(f => f.name === state.owner.name) || index.functions[0]} row=${row}
      act=${act} />
    ${state.help ? html`<${Help} close=${() => act.set({help: false})} />` : ""}`;
}

function Header({data, state, act, found, search, lines}) {
  return html`<header><h1>${data.programs.map(p => p.title).join(" \u2194 ")}</h1>
    <input type="search" ref=${search} value=${state.typed}
      placeholder="Search: text, module, source op, place  ( / )" aria-label="Search"
      onInput=${event => act.set({typed: event.target.value})} />
    <span id="found" class="note" role="status">${found ? `${commas(found.length)} found` : ""}</span>
    <button disabled=${!found} aria-label="previous match"
      onClick=${() => act.match(-1, found)}>\u2191</button>
        <button disabled=${!found} aria-label="next match"
          onClick=${() => act.match(1, found)}>\u2193</button>
    <label><input type="checkbox" checked=${state.only} disabled=${!found}
      onChange=${event => act.set({only: event.target.checked})} /> only these</label>
    <button onClick=${act.foldAll}>${state.folded.size ? "Unfold all" : "Fold modules"}</button>
    ${data.diff ? html`<button onClick=${() => act.match(-1, lines.changes)}>Previous difference</button>
    <button onClick=${() => act.match(1, lines.changes)}>Next difference</button>` : ""}
    <button onClick=${act.back} disabled=${!state.past.length}>Back</button>
    <button id="theme" onClick=${act.theme}>Theme: ${state.theme}</button>
    <button onClick=${() => act.set({help: true})}>Keys ?</button></header>`;
}

function Panels({data, lines, index, row, state, act, tabs}) {
  const needsRow = ["op", "flow", "kernel"].includes(state.tab);
  const other =
    data.diff &&
    row &&
    row.kernel &&
    (data.diff.parts || []).find(part => part.kind === "kernel" && part.name === row.kernel);
  const panel =
    needsRow && !row
      ? html`<p class="note">Select a line of the program: click it, or press j.</p>`
      : {
          op: OpPanel,
          flow: FlowPanel,
          kernel: KernelPanel,
          memory: MemoryPanel,
          run: RunPanel,
          about: AboutPanel,
          changes: ChangesPanel,
        }[state.tab];
  return html`<section class="details" aria-label="Details"><div role="tablist">
    ${tabs.map(([name, text], n) => html`<button role="tab" id=${`tab-${name}`}
    aria-selected=${state.tab === name} title=${`key ${n + 1}`} onClick=${() => act.set({tab: name})}>${text}
      </button>`)}</div>
    <div class="scroll" role="tabpanel" tabindex="0" id="panel" aria-labelledby=${`tab-${state.tab}`}>
    ${typeof panel === "function" ? html`<${panel} key=${row ? row.number : -1} data=${data} diff=${data.diff}
    lines=${lines} index=${index} row=${row} owner=${row ? row.owner : index.functions[0]} act=${act}
    value=${state.value} other=${other} />` : panel}</div></section>`;
}

performance.mark("wir-begin");
const page = JSON.parse(document.getElementById("data").textContent);
document.title = page.programs.map(p => p.title).join(" \u2194 ");
document.getElementById("app").replaceChildren();
render(html`<${App} data=${page} />`, document.getElementById("app"));
performance.mark("wir-end");
