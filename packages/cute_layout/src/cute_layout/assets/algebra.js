"use strict";
// The layout algebra of the playground: layouts of whole numbers, each operation checked against
// the table of its function before it is shown. cute_layout is the reference.
//
//   layout = { shape, stride }, both trees of the same form; flat modes run fastest first
//   composed = { swizzle: [bits, base, shift], offset, layout }

class LayoutError extends Error {}
const MOST = 1 << 16;

// ---- trees ----
const isTree = Array.isArray;
const flat = (tree) => (isTree(tree) ? tree.flatMap(flat) : [tree]);
const product = (tree) => flat(tree).reduce((a, b) => a * b, 1);
const show = (tree) => (isTree(tree) ? `(${tree.map(show).join(",")})` : `${tree}`);
const congruent = (a, b) => (isTree(a) ? isTree(b) && a.length === b.length && a.every((x, i) => congruent(x, b[i])) : !isTree(b));

// ---- text ----
function parseTree(text) {
  let at = 0;
  const space = () => { while (text[at] === " ") at++; };
  function tree() {
    space();
    if (text[at] === "(") {
      at++;
      const parts = [tree()];
      for (space(); text[at] === ","; space()) { at++; parts.push(tree()); }
      if (text[at] !== ")") throw new LayoutError(`expected , or ) at ${at} of "${text}"`);
      at++;
      return parts;
    }
    const found = /^-?\d+/.exec(text.slice(at));
    if (!found) throw new LayoutError(`expected a number or ( at ${at} of "${text}"`);
    at += found[0].length;
    return Number(found[0]);
  }
  const made = tree();
  space();
  if (at !== text.length) throw new LayoutError(`"${text.slice(at)}" is left over in "${text}"`);
  return made;
}

function parse(text) {
  const swizzled = /^\s*(?:Sw|S)?<\s*(\d+)\s*,\s*(\d+)\s*,\s*(-?\d+)\s*>\s*o\s*(?:(-?\d+)\s*o\s*)?(.*)$/.exec(text);
  if (swizzled) {
    const [bits, base, shift] = swizzled.slice(1, 4).map(Number);
    if (Math.abs(shift) < bits) throw new LayoutError(`a swizzle needs |shift| >= bits, got ${bits} and ${shift}`);
    if (base + bits + Math.abs(shift) > 30) throw new LayoutError("a swizzle here moves bits below 2^30");
    return { swizzle: [bits, base, shift], offset: Number(swizzled[4] || 0), layout: parse(swizzled[5]) };
  }
  const colon = text.indexOf(":");
  const shape = parseTree((colon < 0 ? text : text.slice(0, colon)).trim());
  if (flat(shape).some((n) => n < 1)) throw new LayoutError(`extents are 1 or more, got ${show(shape)}`);
  if (product(shape) > MOST) throw new LayoutError(`${product(shape)} elements: up to ${MOST} are shown`);
  const stride = colon < 0 ? compact(shape) : parseTree(text.slice(colon + 1).trim());
  if (!congruent(shape, stride)) throw new LayoutError(`${show(stride)} has not the parentheses of ${show(shape)}`);
  return { shape, stride };
}

// Column-major strides of a shape, as CuTe gives where none are written.
function compact(shape) {
  let next = 1;
  const walk = (tree) => {
    if (isTree(tree)) return tree.map(walk);
    const own = next;
    next *= tree;
    return own;
  };
  return walk(shape);
}

function text(a) {
  if (a.swizzle) return `Sw<${a.swizzle.join(",")}> o ${a.offset} o ${text(a.layout)}`;
  return `${show(a.shape)}:${show(a.stride)}`;
}

// ---- the function ----
const plain = (a) => (a.swizzle ? a.layout : a);
const modes = (a) => flat(a.shape).map((n, i) => [n, flat(a.stride)[i]]);
const size = (a) => product(plain(a).shape);

function swizzle(offset, [bits, base, shift]) {
  const ones = ((1 << bits) - 1) << base;
  return shift >= 0 ? offset ^ ((offset >> shift) & ones) : offset ^ ((offset & ones) << -shift);
}

// At a number, whose digits are those of the flat shape; the last digit has no end.
function at(a, index) {
  if (a.swizzle) return swizzle(a.offset + at(a.layout, index), a.swizzle);
  let offset = 0;
  const all = modes(a);
  all.forEach(([n, d], i) => {
    const digit = i === all.length - 1 ? index : index % n;
    offset += digit * d;
    index = Math.floor(index / n);
  });
  return offset;
}

const table = (a) => Array.from({ length: size(a) }, (_, i) => at(a, i));
const cosize = (a) => Math.max(...table(a)) + 1;

// ---- operations ----
function only(a, what) {
  if (a.swizzle) throw new LayoutError(`${what} of a swizzled layout is not plain`);
  return a;
}

function checked(made, wanted, what) {
  const got = table(made);
  if (got.length !== wanted.length || got.some((x, i) => x !== wanted[i])) throw new LayoutError(`${what}: no layout of this form is that function`);
  return made;
}

const from = (list) => (list.length === 1 ? { shape: list[0][0], stride: list[0][1] } : { shape: list.map((m) => m[0]), stride: list.map((m) => m[1]) });

function coalesce(a) {
  only(a, "the coalesced form");
  const out = [];
  for (const [n, d] of modes(a)) {
    const last = out[out.length - 1];
    if (n === 1) continue;
    if (last && d === last[0] * last[1]) last[0] *= n;
    else out.push([n, d]);
  }
  return checked(from(out.length ? out : [[1, 0]]), table(a), "coalesce");
}

// The digits of a function f of 0 .. n-1: runs of one step, then runs of those.
function digits(f, n, what) {
  if (n === 1) return [[1, 0]];
  const out = [];
  for (let done = 1; done < n; ) {
    const step = f(done), whole = n / done;
    let run = 1;
    while (run < whole && f(done * run) === run * step) run++;
    if (whole % run) throw new LayoutError(`${what}: at ${done * run} of a mode of ${n} a run of ${run} ends, which does not divide ${whole}`);
    out.push([run, step]);
    done *= run;
  }
  return out;
}

// R(i) = A(B(i)), R of B's shape: each leaf of B is cut where the function turns.
function composition(a, b) {
  only(b, "the second operand");
  if (a.swizzle) return { swizzle: a.swizzle, offset: a.offset, layout: composition(a.layout, b) };
  const values = table(b).map((x) => at(a, x));
  let unit = 1;
  const walk = (shape) => {
    if (isTree(shape)) {
      const parts = shape.map(walk);
      return { shape: parts.map((p) => p.shape), stride: parts.map((p) => p.stride) };
    }
    const own = unit;
    unit *= shape;
    return from(digits((c) => values[c * own], shape, "composition"));
  };
  return checked(walk(b.shape), values, "composition");
}

function complement(a, bound) {
  only(a, "the complement");
  const sorted = modes(coalesce(a)).filter(([n, d]) => d !== 0 && n > 1).map(([n, d]) => [n, Math.abs(d)]).sort((x, y) => x[1] - y[1]);
  const out = [];
  let current = 1;
  for (const [n, d] of sorted) {
    if (d < current) throw new LayoutError(`complement: modes overlap, stride ${d} is less than the block of ${current} below it`);
    // A gap that is no whole number of blocks is filled as far as blocks go.
    if (d >= 2 * current) out.push([Math.floor(d / current), current]);
    current = n * d;
  }
  const rest = Math.ceil(bound / current);
  if (rest > 1) out.push([rest, current]);
  return out.length ? coalesce(from(out)) : { shape: 1, stride: 0 };
}

const joined = (...parts) => ({ shape: parts.map((p) => p.shape), stride: parts.map((p) => p.stride) });
const divide = (a, b) => composition(a, joined(b, complement(b, size(a))));

function product2(a, b) {
  only(a, "the product");
  return joined(a, composition(complement(a, size(a) * cosize(b)), b));
}

// The longest R with A(R(i)) = i.
function rightInverse(a) {
  only(a, "the inverse");
  const list = modes(coalesce(a));
  let index = 1;
  const placed = list.map(([n, d]) => { const own = index; index *= n; return { n, d, own }; }).sort((x, y) => x.d - y.d || y.n - x.n || y.own - x.own);
  const out = [];
  let next = 1;
  for (const { n, d, own } of placed) {
    if (d !== next) continue;
    out.push([n, own]);
    next = n * d;
  }
  const made = out.length ? coalesce(from(out)) : { shape: 1, stride: 0 };
  table(made).forEach((x, i) => { if (at(a, x) !== i) throw new LayoutError("the inverse does not invert"); });
  return made;
}

const OPERATIONS = {
  "coalesce(A)": (a) => coalesce(a),
  "right_inverse(A)": (a) => rightInverse(a),
  "complement(A)": (a) => complement(a, cosize(only(a, "the complement"))),
  "composition(A, B)": (a, b) => composition(a, b),
  "logical_divide(A, B)": (a, b) => divide(a, b),
  "logical_product(A, B)": (a, b) => product2(a, b),
};
