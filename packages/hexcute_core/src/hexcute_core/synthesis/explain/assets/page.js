"use strict";
// The page's program: draws layouts and accesses from their functions, and links lines to what came
// of them. Data is the JSON in #scene.
const scene = JSON.parse(document.getElementById("scene").textContent);
const SIDE = 32, BANKS = 32, WORD = 32;
const $ = (id) => document.getElementById(id);

function node(name, attributes, ...children) {
  const svg = ["svg", "g", "rect", "text", "title", "line"].includes(name);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

const hue = (i, of) => `hsl(${Math.round((360 * i) / of)} 70% 76%)`;
const size = (shape) => shape.reduce((a, b) => a * b, 1);

// ---- the functions ----
function swizzled(offset, s) {
  if (!s) return offset;
  const [bits, base, shift] = s;
  const ones = ((1 << bits) - 1) << base;
  return shift >= 0 ? offset ^ ((offset >> shift) & ones) : offset ^ ((offset & ones) << -shift);
}

function offsetOf(tensor, place) {
  let offset = 0;
  tensor.digits.forEach((digits, mode) => {
    let c = place[mode];
    digits.forEach(([extent, stride], i) => {
      const last = i === digits.length - 1;
      offset += (last ? c : c % extent) * stride;
      c = Math.floor(c / extent);
    });
  });
  return swizzled(offset, tensor.swizzle);
}

function coordinate(modes, index, place) {
  for (const [extent, step, dim] of modes) {
    place[dim] += (index % extent) * step;
    index = Math.floor(index / extent);
  }
}

const linear = (shape, place) => place.reduce((sum, c, i) => sum * shape[i] + c, 0);

// Who holds which element of a register tile, worked out when it is first shown.
function holders(tensor) {
  if (tensor.holders) return tensor.holders;
  const threads = size(tensor.thread.map((m) => m[0])), values = size(tensor.value.map((m) => m[0]));
  tensor.threads = threads;
  tensor.holders = new Map();
  for (let t = 0; t < threads; t++) {
    for (let v = 0; v < values; v++) {
      const place = tensor.shape.map(() => 0);
      coordinate(tensor.thread, t, place);
      coordinate(tensor.value, v, place);
      const key = linear(tensor.shape, place);
      if (!tensor.holders.has(key)) tensor.holders.set(key, []);
      tensor.holders.get(key).push([t, v]);
    }
  }
  return tensor.holders;
}

// ---- layouts ----
const view = { tensor: scene.tensors[0], row: 0, column: 0, slice: [], thread: null, here: [0, 0] };

function extents(tensor) {
  return tensor.shape.length === 1 ? [1, tensor.shape[0]] : tensor.shape.slice(0, 2);
}

function placeOf(tensor, row, column) {
  return tensor.shape.length === 1 ? [column] : [row, column, ...view.slice];
}

function described(tensor, row, column) {
  const place = placeOf(tensor, row, column), at = `${tensor.name}[${place.join(", ")}]`;
  if (tensor.space === "shared") {
    const offset = offsetOf(tensor, place), byte = (offset * tensor.bits) / 8;
    return `${at}: offset ${offset}, byte ${byte}, bank ${Math.floor(byte / 4) % BANKS}`;
  }
  const held = holders(tensor).get(linear(tensor.shape, place)) || [];
  const who = held.slice(0, 4).map(([t, v]) => `thread ${t} (warp ${t >> 5}, lane ${t & 31}), register ${v}`);
  return `${at}: ${who.join("; ") || "held by none"}${held.length > 4 ? `; and ${held.length - 4} more` : ""}`;
}

function cellOf(tensor, row, column) {
  const place = placeOf(tensor, row, column);
  if (tensor.space === "shared") {
    const offset = offsetOf(tensor, place), bank = Math.floor((offset * tensor.bits) / WORD) % BANKS;
    return { lines: [`${offset}`, `b${bank}`], fill: hue(bank, BANKS), threads: [] };
  }
  const held = holders(tensor).get(linear(tensor.shape, place)) || [];
  if (!held.length) return { lines: [""], fill: "none", threads: [] };
  const [t, v] = held[0];
  return { lines: [`T${t}`, `V${v}${held.length > 1 ? "+" : ""}`], fill: hue((t * 11) % 32, 32), threads: held.map((h) => h[0]) };
}

function drawGrid() {
  const tensor = view.tensor, [rows, columns] = extents(tensor);
  const height = Math.min(SIDE, rows - view.row), width = Math.min(SIDE, columns - view.column);
  const W = 34, H = 26, LEFT = 34, TOP = 18;
  const svg = node("svg", { class: "grid", width: LEFT + width * W + 2, height: TOP + height * H + 2, tabindex: 0, role: "img",
    "aria-label": `the layout of ${tensor.name}; arrow keys move, Page Up and Page Down turn pages`, onkeydown: moved });
  for (let j = 0; j < width; j++) svg.append(node("text", { class: "rule", x: LEFT + j * W + 10, y: 12 }, `${view.column + j}`));
  for (let i = 0; i < height; i++) {
    svg.append(node("text", { class: "rule", x: 4, y: TOP + i * H + 16 }, `${view.row + i}`));
    for (let j = 0; j < width; j++) {
      const row = view.row + i, column = view.column + j, cell = cellOf(tensor, row, column);
      const held = view.thread !== null && cell.threads.includes(view.thread);
      const here = view.here[0] === row && view.here[1] === column;
      const group = node("g", { class: `${held ? "held" : view.thread !== null ? "faint" : ""} ${here ? "here" : ""}`,
        onmouseenter: () => tell(row, column, false), onclick: () => tell(row, column, true) });
      group.append(node("rect", { x: LEFT + j * W, y: TOP + i * H, width: W, height: H, fill: cell.fill }));
      cell.lines.forEach((line, k) => group.append(node("text", { x: LEFT + j * W + 3, y: TOP + i * H + 11 + 10 * k }, line)));
      svg.append(group);
    }
  }
  $("grid").replaceChildren(svg);
  return svg;
}

function tell(row, column, pin) {
  view.here = [row, column];
  $("told").textContent = described(view.tensor, row, column);
  if (!pin) return;
  const threads = cellOf(view.tensor, row, column).threads;
  view.thread = threads.length && view.thread !== threads[0] ? threads[0] : null;
  drawLayouts();
}

function moved(event) {
  const [rows, columns] = extents(view.tensor), steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  const clamp = (x, most) => Math.max(0, Math.min(x, most - 1));
  if (steps[event.key]) view.here = [clamp(view.here[0] + steps[event.key][0], rows), clamp(view.here[1] + steps[event.key][1], columns)];
  else if (event.key === "PageDown") view.here = [view.here[0], clamp(view.here[1] + SIDE, columns)];
  else if (event.key === "PageUp") view.here = [view.here[0], clamp(view.here[1] - SIDE, columns)];
  else if (event.key === "Enter") { tell(...view.here, true); drawGrid().focus(); event.preventDefault(); return; }
  else return;
  event.preventDefault();
  view.row = Math.floor(view.here[0] / SIDE) * SIDE;
  view.column = Math.floor(view.here[1] / SIDE) * SIDE;
  drawLayouts().focus();
  $("told").textContent = described(view.tensor, ...view.here);
}

function turn(text, key, most) {
  const step = (by) => () => { view[key] = Math.max(0, Math.min(view[key] + by, Math.floor((most - 1) / SIDE) * SIDE)); drawLayouts(); };
  if (most <= SIDE) return [];
  return [node("button", { onclick: step(-SIDE), "aria-label": `earlier ${text}` }, "‹"),
    node("span", {}, `${text} ${view[key]} to ${Math.min(view[key] + SIDE, most) - 1} of ${most}`),
    node("button", { onclick: step(SIDE), "aria-label": `later ${text}` }, "›")];
}

function drawLayouts() {
  const tensor = view.tensor, [rows, columns] = extents(tensor);
  $("chosen").replaceChildren(...scene.tensors.map((t) => node("button",
    { "aria-pressed": t === tensor, onclick: () => { choose(t); } }, `${t.name}: ${t.space}`)));
  const slices = tensor.shape.slice(2).map((extent, i) => node("label", {}, `mode ${i + 2} `, node("input",
    { type: "number", min: 0, max: extent - 1, value: view.slice[i], size: 3, onchange: (e) => { view.slice[i] = Math.max(0, Math.min(+e.target.value, extent - 1)); drawLayouts(); } })));
  const thread = tensor.space === "registers" ? [node("label", {}, "thread ", node("input",
    { type: "number", id: "thread", min: 0, value: view.thread ?? "", size: 4, onchange: (e) => { view.thread = e.target.value === "" ? null : +e.target.value; drawLayouts(); } }))] : [];
  $("pages").replaceChildren(node("span", { class: "mono" }, `${tensor.dtype} ${tensor.shape.join("x")}  ${tensor.text}`),
    ...turn("rows", "row", rows), ...turn("columns", "column", columns), ...slices, ...thread);
  return drawGrid();
}

function choose(tensor) {
  Object.assign(view, { tensor, row: 0, column: 0, thread: null, here: [0, 0], slice: tensor.shape.slice(2).map(() => 0) });
  $("told").textContent = described(tensor, 0, 0);
  drawLayouts();
}

// ---- accesses ----
// A warp's access goes in phases of 128 bytes; lanes of a phase that want different words of one
// bank wait for each other.
function phases(access) {
  const bytes = (access.width * access.bits) / 8, lanes = Math.max(1, Math.min(32, Math.floor(128 / Math.max(bytes, 4)))), out = [];
  for (let first = 0; first < access.starts.length; first += lanes) {
    const banks = Array.from({ length: BANKS }, () => new Map());
    access.starts.slice(first, first + lanes).forEach((start, i) => {
      const byte = (swizzled(start, access.swizzle) * access.bits) / 8;
      for (let b = 0; b < Math.max(bytes, 1); b += 4) {
        const word = Math.floor((byte + b) / 4), bank = word % BANKS;
        if (!banks[bank].has(word)) banks[bank].set(word, []);
        banks[bank].get(word).push(first + i);
      }
    });
    out.push(banks);
  }
  return out;
}

function drawAccess(access) {
  const W = 26, H = 20, LEFT = 70, found = phases(access);
  const deep = found.map((banks) => Math.max(...banks.map((b) => b.size)));
  const total = deep.reduce((a, b) => a + b, 0);
  const svg = node("svg", { class: "grid", width: LEFT + BANKS * W + 2, height: 18 + total * H + found.length * 6, role: "img", "aria-label": `${total} wavefronts` });
  for (let b = 0; b < BANKS; b++) svg.append(node("text", { class: "rule", x: LEFT + b * W + 7, y: 12 }, `${b}`));
  let y = 18;
  found.forEach((banks, phase) => {
    svg.append(node("text", { class: "rule", x: 4, y: y + 14 }, `phase ${phase}`));
    banks.forEach((words, bank) => [...words.values()].forEach((lanes, depth) => {
      const group = node("g", {}, node("rect", { x: LEFT + bank * W, y: y + depth * H, width: W, height: H, fill: hue((lanes[0] * 11) % 32, 32) }),
        node("text", { x: LEFT + bank * W + 3, y: y + depth * H + 14 }, `L${lanes[0]}${lanes.length > 1 ? "+" : ""}`));
      group.append(node("title", {}, `bank ${bank}: lane ${lanes.join(", ")}`));
      svg.append(group);
    }));
    y += deep[phase] * H + 6;
  });
  $("access").replaceChildren(node("p", {}, `${access.where}: ${access.instruction} ${access.does} ${access.tensor}, ${(access.width * access.bits) / 8} bytes a lane: ` +
    `${total} wavefronts, ${found.length} at least; ${total - found.length} bank conflicts`), node("div", { class: "scroll" }, svg));
  for (const b of $("copies").children) b.setAttribute("aria-pressed", b.dataset.index === String(scene.accesses.indexOf(access)));
}

// ---- candidates, light and dark ----
$("filter").addEventListener("input", (event) => {
  const words = event.target.value.toLowerCase();
  for (const row of document.querySelectorAll("#candidates tbody tr")) row.hidden = !row.textContent.toLowerCase().includes(words);
});

const dark = () => document.documentElement.classList.contains("dark");
$("theme").addEventListener("click", () => document.documentElement.classList.toggle("dark", !dark()));
document.documentElement.classList.toggle("dark", matchMedia("(prefers-color-scheme: dark)").matches);

if (scene.tensors.length) choose(scene.tensors[0]);
$("copies").append(...scene.accesses.map((a, i) => node("button", { "data-index": i, onclick: () => drawAccess(a) }, `${a.where} ${a.does} ${a.tensor}`)));
if (scene.accesses.length) drawAccess(scene.accesses[0]);
