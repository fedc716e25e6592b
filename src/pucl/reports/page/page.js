// ---- the whole page ----

const NEAREST = 12;
const page = JSON.parse(document.getElementById("data").textContent);
const darkness = matchMedia("screen and (prefers-color-scheme: dark)");
const paper = matchMedia("print");
let printing = paper.matches;
const theme = () => (darkness.matches && !printing ? page.dark : page.light);

function chooseScores(article) {
  const choice = article.querySelector('[data-choice="number"]');
  if (!choice) return;
  choice.addEventListener("change", () => article.querySelectorAll(".panels").forEach((panels) => {
    panels.hidden = panels.dataset.number !== choice.value;
  }));
}

function switchRows(article) {
  article.querySelectorAll("[data-switch]").forEach((button) => button.addEventListener("click", () => {
    const shown = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(shown));
    article.querySelectorAll(`[data-row="${button.dataset.switch}"]`).forEach((row) => { row.style.display = shown ? "" : "none"; });
  }));
}

// A part begins when it is first opened: a page may have many.
const repaints = [], parts = new Map();
function begin(number) {
  if (parts.has(number)) return parts.get(number);
  const article = document.getElementById(`part-${number}`), space = page.spaces[number];
  chooseScores(article);
  switchRows(article);
  if (!space) { parts.set(number, null); return null; }
  const samples = readSamples(number, space, repaints);
  article.classList.toggle("reads", samples.texts !== null);
  showPairs(article, samples);
  const anchors = showAnchors(article, samples), map = showMap(article, samples, repaints);
  const choose = (place) => { anchors.choose(place); map.choose(place); };
  const costliest = space.pairs[0].pairs, begins = costliest.length ? costliest[0].first : 0;
  choose(begins);
  parts.set(number, { samples, anchors, choose, begins });
  return parts.get(number);
}

const tabs = [...document.querySelectorAll('[role="tab"]')];
function open(number) {
  tabs.forEach((tab, each) => {
    tab.setAttribute("aria-selected", String(each === number));
    tab.tabIndex = each === number ? 0 : -1;
    document.getElementById(`part-${each}`).hidden = each !== number;
  });
  return begin(number);
}
tabs.forEach((tab, number) => {
  tab.addEventListener("click", () => open(number));
  tab.addEventListener("keydown", (event) => {
    const way = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!way) return;
    const next = (number + way + tabs.length) % tabs.length;
    open(next);
    tabs[next].focus();
  });
});

// An address names a sample, or a section, which may be folded or in another part; without one, the page is as it began.
function route() {
  if (!location.hash) { for (const part of parts.values()) if (part) part.choose(part.begins); return; }
  const found = /^#sample-(\d+)-(\d+)$/.exec(location.hash);
  if (found && Number(found[1]) < page.spaces.length) {
    const part = open(Number(found[1]));
    if (!part) return;
    const place = part.samples.place(Number(found[2]));
    if (place === undefined) { part.anchors.missing(found[2]); return; }
    part.choose(place);
    part.anchors.focus();
    return;
  }
  const section = /^#[\w-]+$/.test(location.hash) && document.querySelector(location.hash), article = section && section.closest(".part");
  if (!article) return;
  open(Number(article.id.split("-")[1]));
  if (section.matches("details")) section.open = true;
  section.scrollIntoView();
}
open(0);
route();
addEventListener("hashchange", route);

const repaint = () => repaints.forEach((action) => action());
const folded = () => document.querySelectorAll("details:not([open])");
let unfolded = [];
function onPaper(state) {
  if (printing === state) return;
  printing = state;
  if (state) { unfolded = [...folded()]; unfolded.forEach((each) => { each.open = true; }); }
  else unfolded.forEach((each) => { each.open = false; });
  repaint();
}
if (printing) { printing = false; onPaper(true); }
darkness.addEventListener("change", repaint);
paper.addEventListener("change", () => onPaper(paper.matches));
addEventListener("beforeprint", () => onPaper(true));
addEventListener("afterprint", () => onPaper(false));
