// Asks the program of a page what it finds, and plays a reader; the answers go to #answers.
const told = {};
told.layouts = scene.tensors.map((t) => {
  const found = [], places = [];
  for (let i = 0; i < size(t.shape); i++) {
    const place = []; let rest = i;
    for (const extent of [...t.shape].reverse()) { place.unshift(rest % extent); rest = Math.floor(rest / extent); }
    places.push(place);
  }
  return places.map((p) => t.space === "shared" ? offsetOf(t, p) : holders(t).get(linear(t.shape, p)) || []);
});
told.wavefronts = scene.accesses.map((a) => phases(a).map((banks) => Math.max(...banks.map((b) => b.size))).reduce((x, y) => x + y, 0));
const say = (word) => { told[word] = document.getElementById("told").textContent; };
const registers = scene.tensors.find((t) => t.space === "registers");
choose(registers);
const cells = () => [...document.querySelectorAll("#grid g")];
cells()[3].dispatchEvent(new MouseEvent("mouseenter")); say("pointed");
cells()[3].dispatchEvent(new MouseEvent("click", { bubbles: true }));
told.held = document.querySelectorAll("#grid g.held").length;
const key = (name) => document.querySelector("#grid svg").dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
key("ArrowDown"); key("ArrowRight"); say("moved");
key("PageDown"); told.page = view.column;
const line = document.querySelector("#source tr[data-where]"); line.click();
told.marked = [...document.querySelectorAll("tr.marked")].map((r) => [r.closest("section").id, r.dataset.where]);
const gemm = scene.code[0].runs[1][0];
mark(gemm);
told.linked = [...document.querySelectorAll("#linked div")].map((d) => [d.querySelector("h3").textContent, d.querySelector("pre").textContent]);
mark(null); told.unlinked = document.querySelectorAll("#linked div").length;
told.lanes = [...document.querySelectorAll("#lanes svg > text title")].map((t) => t.textContent);
const spans = () => [lanes.first, lanes.last], bars = () => [...document.querySelectorAll("#lanes rect")];
told.spans = [spans()];
bars()[3].dispatchEvent(new MouseEvent("mouseenter")); told.stretch = document.getElementById("stretch").textContent;
bars()[3].dispatchEvent(new MouseEvent("click", { bubbles: true }));
told.chosen = [...new Set([...document.querySelectorAll("tr.marked")].map((r) => r.dataset.where))];
for (const name of ["+", "ArrowRight", "0"]) {
  document.querySelector("#lanes svg").dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true })); told.spans.push(spans());
}
const filter = document.getElementById("filter"); filter.value = "clocks"; filter.dispatchEvent(new Event("input"));
told.candidates = [...document.querySelectorAll("#candidates tbody tr")].filter((r) => !r.hidden).map((r) => r.textContent);
const was = dark(); document.getElementById("theme").click(); told.turned = was !== dark();
told.buttons = document.querySelectorAll("#chosen button, #copies button").length;
const out = document.createElement("pre"); out.id = "answers"; out.textContent = JSON.stringify(told); document.body.append(out);
