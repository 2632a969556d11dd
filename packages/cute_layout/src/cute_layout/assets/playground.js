"use strict";
// The page: what is typed, every operation's result or reason, and a picture of one of them, in
// which a shade is a bank of shared memory.
const $ = (id) => document.getElementById(id);
const SIDE = 64, BANKS = 32;
let chosen = "A";

function make(name, attributes, ...children) {
  const svg = ["svg", "g", "rect", "text"].includes(name);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) key.startsWith("on") ? made.addEventListener(key.slice(2), value) : made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function results() {
  const out = new Map(), read = {};
  const attempt = (name, work) => {
    try { out.set(name, { layout: work() }); } catch (error) {
      if (!(error instanceof LayoutError)) throw error;
      out.set(name, { why: error.message });
    }
    return out.get(name).layout;
  };
  for (const name of ["A", "B"]) read[name] = attempt(name, () => parse($(name.toLowerCase()).value));
  for (const [name, operation] of Object.entries(OPERATIONS)) {
    if (read.A && (read.B || !name.includes("B"))) attempt(name, () => operation(read.A, read.B));
  }
  return out;
}

// Rows are the first mode, columns the others.
function extents(layout) {
  const { shape } = plain(layout);
  return Array.isArray(shape) ? [product(shape[0]), product(shape.slice(1))] : [1, shape];
}

function draw(layout) {
  const [rows, columns] = extents(layout), bits = Number($("bits").value), W = 38, H = 26, LEFT = 36, TOP = 22;
  const height = Math.min(rows, SIDE), width = Math.min(columns, SIDE);
  const svg = make("svg", { width: LEFT + width * W + 2, height: TOP + height * H + 2, role: "img", "aria-label": text(layout) });
  for (let j = 0; j < width; j++) svg.append(make("text", { class: "rule", x: LEFT + j * W + W / 2, y: 15 }, `${j}`));
  for (let i = 0; i < height; i++) {
    svg.append(make("text", { class: "rule", x: LEFT / 2, y: TOP + i * H + 17 }, `${i}`));
    for (let j = 0; j < width; j++) {
      const offset = at(layout, i + rows * j), bank = Math.floor((offset * bits) / 32) % BANKS;
      const words = `(${rows > 1 ? `${i}, ${j}` : j}) -> ${offset}: byte ${(offset * bits) / 8}, bank ${bank}`;
      const cell = make("g", { onmouseenter: () => tell(cell, words), onclick: () => tell(cell, words) });
      cell.append(make("rect", { x: LEFT + j * W, y: TOP + i * H, width: W, height: H, fill: `hsl(${(360 * bank) / BANKS} 70% 78%)` }),
        make("text", { x: LEFT + j * W + W / 2, y: TOP + i * H + 17 }, `${offset}`));
      svg.append(cell);
    }
  }
  $("picture").replaceChildren(svg);
  const more = rows > SIDE || columns > SIDE ? `; the first ${height} x ${width} are drawn` : "";
  $("drawn").textContent = `${chosen} = ${text(layout)}, ${rows} x ${columns}${more}`;
  $("told").textContent = "Point at an element.";
}

function tell(cell, words) {
  for (const other of document.querySelectorAll("g.here")) other.classList.remove("here");
  cell.classList.add("here");
  $("told").textContent = words;
}

function show_all() {
  const found = results();
  $("results").replaceChildren(...[...found].map(([name, { layout, why }]) => {
    const choose = () => { chosen = name; show_all(); };
    const row = make("tr", layout ? { tabindex: 0, "aria-selected": name === chosen, onclick: choose, onkeydown: (e) => { if (e.key === "Enter") choose(); } } : {},
      make("td", {}, name), make("td", layout ? {} : { class: "warning" }, layout ? text(layout) : why));
    return row;
  }));
  const { layout } = found.get(chosen) || {};
  if (layout) draw(layout);
  else { $("picture").replaceChildren(); $("drawn").textContent = `${chosen}: nothing to draw`; $("told").textContent = ""; }
  history.replaceState(null, "", `#${new URLSearchParams({ a: $("a").value, b: $("b").value })}`);
}

const given = new URLSearchParams(location.hash.slice(1));
$("a").value = given.get("a") || "Sw<3,3,3> o 0 o (8,64):(64,1)";
$("b").value = given.get("b") || "(8,8):(1,8)";
for (const name of ["a", "b", "bits"]) $(name).addEventListener("input", show_all);
show_all();
