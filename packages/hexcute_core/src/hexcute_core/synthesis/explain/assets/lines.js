// ---- lines: a line of the kernel, and what became of it ----
// The texts stand on the page already; scene.code says which of their lines belong to which line.
const listings = scene.code.map((listing, number) => {
  const pre = document.querySelector(`pre[data-listing="${number}"]`);
  return { name: listing.name, runs: listing.runs, texts: pre ? pre.textContent.split("\n") : [] };
});

// The numbers of a listing's lines that came of `where`.
function linesOf(listing, where) {
  const found = [];
  let at = 0;
  for (const [place, count] of listing.runs) {
    if (place === where) for (let i = 0; i < count; i++) found.push(at + i);
    at += count;
  }
  return found;
}

function showLinked(where) {
  const shown = where === null ? [] : listings.filter((listing) => listing.runs.length).map((listing) => {
    const lines = linesOf(listing, where), pre = node("pre", { tabindex: 0, "aria-label": `${listing.name} of ${where}` });
    const texts = lines.map((line) => listing.texts[line].replace(/\t/g, "    ")).map((text) => text.replace(/(\*\/) +/, "$1  "));
    const inset = Math.min(...texts.map((text) => text.search(/\S|$/)));
    lines.forEach((line, i) => {
      if (i && lines[i - 1] !== line - 1) pre.append(node("i", {}, "   ⋮\n"));
      pre.append(node("i", {}, `${line + 1}`.padStart(5) + "  "), `${texts[i].slice(inset)}\n`);
    });
    return node("div", {}, node("h3", {}, `${listing.name}: ${lines.length} of ${listing.texts.length} lines come of ${where}`), ...(lines.length ? [pre] : []));
  });
  $("linked").replaceChildren(...shown);
}

function mark(where) {
  for (const row of document.querySelectorAll("tr[data-where]")) row.classList.toggle("marked", where !== null && row.dataset.where === where);
  showLinked(where);
  if (where !== null) location.hash = `line=${where}`;
}

document.addEventListener("click", (event) => {
  const row = event.target.closest("tr[data-where]");
  if (!row) return;
  mark(row.classList.contains("marked") ? null : row.dataset.where);
  const there = document.querySelector("#source tr.marked");
  // What became of a line is shown below the source; whoever chose it elsewhere is taken there.
  if (there && !row.closest("#source")) there.scrollIntoView({ block: "center" });
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.target.matches("tr[data-where]")) event.target.click();
});
if (location.hash.startsWith("#line=")) mark(decodeURIComponent(location.hash.slice(6)));
