// A virtual list, which renders only visible rows, and text with highlighted names.

const ROW = 20,
  BEYOND = 12;

function VirtualList({count, draw, reveal, width = 0, label, role, active, id}) {
  const box = useRef(null);
  const [range, setRange] = useState([0, 60]);
  const measure = () => {
    const first = Math.floor(box.current.scrollTop / ROW),
      seen = Math.ceil(box.current.clientHeight / ROW);
    const next = [Math.max(0, first - BEYOND), first + seen + BEYOND];
    setRange(old => (old[0] === next[0] && old[1] === next[1] ? old : next));
  };
  useLayoutEffect(() => {
    const watcher = new ResizeObserver(measure);
    watcher.observe(box.current);
    return () => watcher.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (!reveal || reveal.index < 0) return;
    const top = reveal.index * ROW,
      {scrollTop, clientHeight} = box.current;
    if (top < scrollTop + ROW || top > scrollTop + clientHeight - 2 * ROW) {
      const near = Math.abs(top - scrollTop - clientHeight / 2) < clientHeight / 2 + 3 * ROW;
      box.current.scrollTop = !near
        ? top - clientHeight / 3
        : top < scrollTop + ROW
          ? top - ROW
          : top - clientHeight + 2 * ROW;
    }
    measure();
  }, [reveal, count]);
  const rows = [];
  for (let at = range[0]; at < Math.min(count, range[1]); at++) rows.push(draw(at, at * ROW));
  return html`<div class="list" id=${id} ref=${box} tabindex="0" role=${role} aria-label=${label}
    aria-activedescendant=${active} onScroll=${measure}>
    <div class="tall" style=${{height: `${count * ROW}px`, minWidth: width ? `${width}ch` : ""}}>${rows}</div>
    </div>`;
}

const NAME = /(?:"(?:[^"\\]|\\.)*"|[\w.]+)/.source;
const TYPE = /\b(?:f|bf|i|u|f8e\w*)\d+\w*(?=\[)|\bbool(?=\[)/.source;
const NAMES = new RegExp(`%${NAME}|@${NAME}|${/"(?:[^"\\]|\\.)*"/.source}|${TYPE}`, "g");

// Splits text into highlighted parts. A click on a value calls `onValue(name)`.
function named(text, current, onValue) {
  const parts = [];
  let at = 0;
  for (const match of text.matchAll(NAMES)) {
    const [word] = match;
    if (match.index > at) parts.push(text.slice(at, match.index));
    at = match.index + word.length;
    if (word[0] === "%") {
      const name = word.slice(1);
      parts.push(
        html`<span class=${name === current ? "value chosen" : "value"} onClick=${event => {
          onValue(name, event);
        }}>${word}</span>`,
      );
    } else
      parts.push(
        html`<span class=${word[0] === "@" ? "callee" : word[0] === '"' ? "text" : "type"}>${word}</span>`,
      );
  }
  parts.push(text.slice(at));
  return parts;
}

const CPP_KEYWORDS =
  "alignas|auto|bool|break|case|char|const|constexpr|continue|do|double|else|extern|false|float|for|if|" +
  "inline|int|int\\d+_t|long|namespace|return|short|signed|sizeof|static|struct|switch|template|true|typename|" +
  "uint\\d+_t|unsigned|using|void|while";
const PYTHON_KEYWORDS =
  "and|as|assert|break|class|continue|def|elif|else|False|finally|for|from|if|import|in|is|lambda|None|not|" +
  "or|pass|raise|return|True|try|while|with|yield";
const LITERAL = /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/.source;
const NUMBER = /\b\d[\w.]*/.source;
const WORDS = {
  cpp: new RegExp(
    `${/\/\/.*|\/\*.*?\*\//.source}|${LITERAL}|${/^\s*#\w+/.source}|${NUMBER}|\\b(?:${CPP_KEYWORDS})\\b`,
    "g",
  ),
  python: new RegExp(
    `#.*|${LITERAL}|${NUMBER}|\\b(?:${PYTHON_KEYWORDS})\\b|${/^\s*@[\w.]+/.source}`,
    "g",
  ),
};
function code(text, language) {
  const parts = [];
  let at = 0;
  for (const match of text.matchAll(WORDS[language])) {
    const [word] = match,
      first = word.trimStart()[0];
    if (match.index > at) parts.push(text.slice(at, match.index));
    at = match.index + word.length;
    const comment = language === "cpp" ? word.startsWith("//") || word.startsWith("/*") : first === "#";
    const literal = first === '"' || first === "'" ? "text" : /\d/.test(first) ? "number" : "word";
    parts.push(html`<span class=${comment ? "comment" : literal}>${word}</span>`);
  }
  parts.push(text.slice(at));
  return parts;
}

// Source as a list of numbered lines. `mark(number)` returns a class for a line.
// A click on a line calls `onLine(number)`.
function Code({lines, language, label, reveal, mark = () => "", onLine, id}) {
  const longest = useMemo(
    () =>
      Math.min(
        400,
        lines.reduce((most, line) => Math.max(most, line.text.length), 0),
      ),
    [lines],
  );
  const draw = (at, top) => {
    const {number, text} = lines[at];
    return html`<div key=${at} class=${`row code ${mark(number)}`} style=${{top: `${top}px`}}
      onClick=${onLine && number ? () => onLine(number) : null}>
      <span class="gutter">${number || ""}</span><span class="what">${code(text, language)}</span></div>`;
  };
  return html`<${VirtualList} id=${id} count=${lines.length} draw=${draw} reveal=${reveal}
    width=${longest + 8} label=${label} />`;
}

const Head = ({names}) => html`<thead><tr>${names.map(name => html`<th>${name}</th>`)}</tr></thead>`;
