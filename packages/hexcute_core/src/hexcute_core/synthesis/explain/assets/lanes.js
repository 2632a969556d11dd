// ---- timeline: a lane for each track, time to the right ----
const lanes = { first: 0, last: 0, here: null };
const ROW = 24, BAR = 17, HEAD = 8, NAMES = 300, HAIR = 0.4;

function timeText(time) {
  if (scene.timeline.unit === "clocks") return `${Math.round(time)} clocks`;
  return time >= 1000 ? `${(time / 1000).toFixed(2)} us` : `${Math.round(time)} ns`;
}

function stretchText(track, [activity, start, end, line]) {
  const where = scene.timeline.lines[line];
  return `${track.name}: ${scene.timeline.activities[activity]} for ${timeText(end - start)}, from ${timeText(start)} on${where ? `, ${where}` : ""}`;
}

// The smallest of 1, 2, 5, 10, 20, ... that is no less.
function tick(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1e-9)));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= least);
}

function drawLanes() {
  const { tracks, colours, other } = scene.timeline, wide = Math.max(560, $("lanes").clientWidth || 1100);
  const names = Math.min(NAMES, wide / 3), scale = (wide - names - 10) / (lanes.last - lanes.first);
  const height = HEAD + ROW * tracks.length, x = (time) => names + (time - lanes.first) * scale;
  const svg = node("svg", { class: "lanes", width: wide, height: height + 22, tabindex: 0, role: "img", onkeydown: steered, onwheel: wheeled,
    "aria-label": "the timeline; + and - zoom, arrow keys move, 0 shows all" });
  const step = tick((lanes.last - lanes.first) / Math.max(2, (wide - names) / 110));
  for (let at = Math.ceil(lanes.first / step) * step; at <= lanes.last; at += step) {
    svg.append(node("line", { x1: x(at), x2: x(at), y1: HEAD, y2: height }), node("text", { x: x(at), y: height + 15, "text-anchor": "middle" }, timeText(at)));
  }
  tracks.forEach((track, i) => {
    const y = HEAD + ROW * i;
    const bar = (start, end, fill, attributes) => {
      const low = Math.max(start, lanes.first), high = Math.min(end, lanes.last);
      if (high < low) return;
      svg.append(node("rect", { x: x(low), y, width: Math.max((high - low) * scale, HAIR), height: BAR, fill, ...attributes }));
    };
    svg.append(node("text", { x: 4, y: y + 13 }, track.name.length * 6.7 > names ? `${track.name.slice(0, Math.floor(names / 6.7) - 1)}…` : track.name, node("title", {}, track.name)));
    bar(track.start, track.told, other, {});
    for (const stretch of track.stretches) {
      const where = scene.timeline.lines[stretch[3]];
      bar(stretch[1], stretch[2], colours[stretch[0]], { class: stretch === lanes.here ? "marked" : null,
        onmouseenter: () => { $("stretch").textContent = stretchText(track, stretch); },
        onclick: () => { lanes.here = stretch; $("stretch").textContent = stretchText(track, stretch); if (where) mark(where); drawLanes(); } });
    }
  });
  $("lanes").replaceChildren(svg);
  return svg;
}

// Shows the part from `first` on that is `span` long, as far as there is one.
function show(first, span) {
  const whole = scene.timeline.end, least = whole / 5000;
  span = Math.min(Math.max(span, least), whole);
  lanes.first = Math.max(0, Math.min(first, whole - span));
  lanes.last = lanes.first + span;
  return drawLanes();
}

function steered(event) {
  const span = lanes.last - lanes.first, middle = lanes.first + span / 2;
  const does = { "+": () => show(middle - span / 4, span / 2), "=": () => show(middle - span / 4, span / 2), "-": () => show(middle - span, span * 2),
    ArrowLeft: () => show(lanes.first - span / 4, span), ArrowRight: () => show(lanes.first + span / 4, span), 0: () => show(0, scene.timeline.end) }[event.key];
  if (!does) return;
  event.preventDefault();
  does().focus();
}

function wheeled(event) {
  if (!event.ctrlKey) return;
  event.preventDefault();
  const box = event.currentTarget.getBoundingClientRect(), names = Math.min(NAMES, box.width / 3);
  const part = Math.max(0, Math.min(1, (event.clientX - box.left - names) / (box.width - names - 10)));
  const span = lanes.last - lanes.first, next = span * (event.deltaY > 0 ? 1.25 : 0.8);
  show(lanes.first + part * (span - next), next);
}

if (scene.timeline) {
  const { activities, colours, other, tracks, left } = scene.timeline;
  for (const [name, colour] of [...activities.map((a, i) => [a, colours[i]]), ["other", other]]) {
    $("legend").append(node("span", {}, node("i", { style: `background:${colour}` }), name));
  }
  if (left) $("legend").append(node("span", { class: "soft" }, `the first ${tracks.length} tracks; ${left} more are left out`));
  show(0, scene.timeline.end);
  addEventListener("resize", drawLanes);
}
