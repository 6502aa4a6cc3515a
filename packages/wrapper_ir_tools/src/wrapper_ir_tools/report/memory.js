// Draws a memory report: a curve of bytes held, a map of storages, and tables.
"use strict";
const report = JSON.parse(document.getElementById("report").textContent);
const get = id => document.getElementById(id);
const commas = n => n.toLocaleString("en-US");
const size = n => {
  const u = [
    ["GiB", 2 ** 30],
    ["MiB", 2 ** 20],
    ["KiB", 2 ** 10],
  ].find(u => n >= u[1]);
  return u ? `${(n / u[1]).toFixed(2)} ${u[0]}` : `${n} B`;
};
const element = (parent, tag, text, attributes = {}) => {
  const svg = parent instanceof SVGElement;
  const child = svg
    ? document.createElementNS("http://www.w3.org/2000/svg", tag)
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) child.setAttribute(name, value);
  if (text !== "") child.textContent = text;
  parent.append(child);
  return child;
};
const LEFT = 80,
  RIGHT = 1190,
  CURVE = [20, 190],
  MAP = [220, 610],
  MOST = 5000;
let selection = "";

function color(storage) {
  const key = storage.modules[0] || storage.kind;
  let hash = 7;
  for (const c of key) hash = (hash * 31 + c.codePointAt(0)) % 3600;
  return `hsl(${hash / 10} 60% ${storage.kind === "call" || storage.kind === "trip" ? 80 : 60}%)`;
}

function matches(storage) {
  const module = get("module").value.trim();
  return !module || storage.modules.some(m => m === module || m.startsWith(module + "."));
}

function path(memory, x, y) {
  let text = `M${x(0)},${y(0)}`;
  memory.held.forEach((n, at) => {
    if (at === 0 || n !== memory.held[at - 1]) text += `V${y(n)}`;
    if (at + 1 === memory.held.length || n !== memory.held[at + 1]) text += `H${x(at + 1)}`;
  });
  return text + `V${y(0)}Z`;
}

function axis(chart, range, most, y) {
  for (const part of [0, 0.25, 0.5, 0.75, 1]) {
    const n = Math.round(most * part);
    element(chart, "line", "", {
      class: "axis",
      x1: LEFT,
      x2: RIGHT,
      y1: y(n),
      y2: y(n),
      "stroke-opacity": part ? 0.4 : 1,
    });
    element(chart, "text", size(n), {x: LEFT - 6, y: y(n) + 4, "text-anchor": "end"});
  }
}

function draw() {
  const chart = get("chart");
  chart.replaceChildren();
  const memory = report.functions.find(f => f.name === get("function").value);
  const ops = Math.max(1, memory.held.length);
  const x = at => LEFT + ((RIGHT - LEFT) * at) / ops;
  const top = Math.max(1, ...memory.storages.map(s => s.address + s.bytes)),
    peak = Math.max(1, memory.held[memory.peak_op] || 0);
  const over = (range, most) => n => range[1] - ((range[1] - range[0]) * n) / most;
  const up = over(CURVE, peak),
    y = over(MAP, top);
  axis(chart, CURVE, peak, up);
  axis(chart, MAP, top, y);
  element(chart, "path", "", {class: "area", d: path(memory, x, up)});
  if (memory === report.functions[0] && report.bound < peak) {
    element(chart, "line", "", {
      class: "bound",
      x1: LEFT,
      x2: RIGHT,
      y1: up(report.bound),
      y2: up(report.bound),
    });
    element(chart, "text", `bound ${size(report.bound)}`, {
      class: "bound",
      x: RIGHT,
      y: up(report.bound) - 3,
      "text-anchor": "end",
    });
  }
  const all = [...memory.storages]
    .sort((a, b) => b.bytes * (b.end - b.begin) - a.bytes * (a.end - a.begin))
    .slice(0, MOST);
  const order = s => (s.kind === "pool" ? 1 : 0);
  for (const s of all.sort((a, b) => order(a) - order(b))) {
    const box = element(chart, "rect", "", {
      class: `storage ${s.kind}`,
      "data-name": s.name,
      x: x(s.begin),
      width: Math.max(0.5, x(s.end) - x(s.begin)),
      y: y(s.address + s.bytes),
      height: Math.max(0.5, y(s.address) - y(s.address + s.bytes)),
    });
    if (s.kind !== "pool") box.setAttribute("fill", color(s));
    if (!matches(s)) box.classList.add("dim");
    if (s.name === selection) box.classList.add("chosen");
    box.addEventListener("mousemove", event => hover(s, event));
    box.addEventListener("mouseleave", () => {
      get("hover").hidden = true;
    });
    box.addEventListener("click", () => choose(s.name));
  }
  element(chart, "line", "", {
    class: "peak",
    x1: x(memory.peak_op + 0.5),
    x2: x(memory.peak_op + 0.5),
    y1: CURVE[0] - 8,
    y2: MAP[1],
  });
  const late = memory.peak_op > ops / 2;
  element(chart, "text", `peak ${size(peak)} at op ${memory.peak_op}`, {
    class: "peak",
    x: x(memory.peak_op + 0.5) + (late ? -5 : 5),
    y: CURVE[0] - 8,
    "text-anchor": late ? "end" : "start",
  });
  for (let part = 0; part <= 8; part++)
    element(chart, "text", String(Math.round((ops * part) / 8)), {
      x: x((ops * part) / 8),
      y: MAP[1] + 16,
      "text-anchor": "middle",
    });
  const fits = memory.storages.filter(matches).length;
  get("shown").textContent =
    `${commas(fits)} of ${commas(memory.storages.length)} storages` +
    (all.length < memory.storages.length ? `, the largest ${commas(MOST)} are drawn` : "");
}

function hover(s, event) {
  const box = get("hover");
  box.replaceChildren();
  element(box, "b", `%${s.name}: ${commas(s.bytes)} bytes (${size(s.bytes)})`);
  const where = s.pool ? ` in %${s.pool}` : "";
  element(
    box,
    "div",
    `${s.kind}${where}, held from op ${s.begin} to op ${s.end - 1}, at ${commas(s.address)}`,
  );
  element(box, "code", s.op);
  if (s.source) element(box, "div", s.source);
  if (s.modules.length) element(box, "div", `module ${s.modules.join(", ")}`);
  box.hidden = false;
  const across = Math.min(event.clientX + 14, innerWidth - box.offsetWidth - 8),
    down = Math.min(event.clientY + 14, innerHeight - box.offsetHeight - 8);
  box.style.left = `${Math.max(0, across)}px`;
  box.style.top = `${Math.max(0, down)}px`;
}

function choose(name) {
  selection = selection === name ? "" : name;
  draw();
}

function row(body, cells, name, owner) {
  const line = element(body, "tr", "", {"data-name": name});
  cells.forEach((text, at) => element(line, "td", text, at === 0 ? {class: "n"} : {}));
  line.addEventListener("click", () => {
    get("function").value = owner;
    selection = "";
    choose(name);
  });
}

function tables() {
  const facts = {
    "held at the worst moment": size(report.held_peak),
    "live in this order": size(report.live),
    "bound of plans in this order": size(report.bound),
    allocated: size(report.allocated),
    allocations: commas(report.allocations),
    "constants beside": size(report.constants),
    "arguments beside": size(report.arguments),
  };
  if (report.assumed.length) facts["symbols without hint"] = report.assumed.join(", ");
  const unknown = Object.entries(report.unknown_temporaries)
    .map(([name, count]) => (count > 1 ? `${name} x${count}` : name));
  if (unknown.length) facts["temporaries not known"] = `${unknown.join(", ")} (counted as 0)`;
  for (const [name, value] of Object.entries(facts)) {
    const box = element(get("facts"), "div", "");
    element(box, "dt", name);
    element(box, "dd", value);
  }
  const counted = [];
  for (const moment of report.peak) {
    const line = element(get("moment"), "p", `op ${moment.op_index} of @${moment.function}: `);
    element(line, "code", moment.op);
    const storages = new Map(
      report.functions.find(f => f.name === moment.function).storages.map(s => [s.name, s]),
    );
    for (const name of moment.held) counted.push([moment.function, storages.get(name)]);
  }
  for (const [owner, s] of counted
    .filter(([, s]) => s.kind !== "call")
    .sort((a, b) => b[1].bytes - a[1].bytes)
    .slice(0, 200))
    row(
      get("held"),
      [
        commas(s.bytes),
        `@${owner} %${s.name}`,
        s.pool ? `${s.kind} in %${s.pool}` : s.kind,
        `${s.begin}-${s.end - 1}`,
        s.op,
        s.modules.join(", "),
      ],
      s.name,
      owner,
    );
  for (const s of report.savings.slice(0, 200))
    row(
      get("savings"),
      [
        commas(s.saves),
        `@${s.function} %${s.name}`,
        `${s.idle_from}-${s.idle_to}`,
        s.how.join(" or ") + (s.again ? `: ${s.again}` : ""),
      ],
      s.name,
      s.function,
    );
}

function modules() {
  const names = new Set();
  for (const f of report.functions)
    for (const s of f.storages)
      for (const m of s.modules) {
        const parts = m.split(".");
        parts.forEach((_, at) => names.add(parts.slice(0, at + 1).join(".")));
      }
  for (const m of [...names].sort()) element(get("modules"), "option", "", {value: m});
}

for (const f of report.functions) element(get("function"), "option", `@${f.name}`, {value: f.name});
get("function").addEventListener("change", draw);
get("module").addEventListener("input", draw);
modules();
tables();
draw();
