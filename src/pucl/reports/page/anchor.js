// ---- one anchor: its most similar samples under the base and under another run, side by side ----

function showAnchors(article, samples) {
  const find = (query) => article.querySelector(query);
  const { space, labels, count } = samples, { maps, base, first } = space;
  const choice = find('[data-choice="run"]'), search = find('[data-choice="anchor"]'), said = find('[data-text="search"]');
  const label = (map) => `${map.name}, seed ${map.seed}`;
  let anchor = 0, matches = [];

  function neighbour(item, map) {
    const parts = [samples.thumb(item.place, 72), make("span", { class: "rank", text: `${item.rank}.` }), make("span", { class: "sim", text: cosines(item.cosine) })];
    let words = `number ${item.rank} by similarity, ${samples.named(item.place)}, similarity ${cosines(item.cosine)}`;
    if (item.r !== undefined) {
      const { probability } = map.hidden;
      parts.push(make("span", { class: "hidden-r", text: probability ? `r ${share(item.r)}` : `r rank ${item.rRank}` }));
      words += probability ? `, probability of a hidden positive ${share(item.r)}` : `, rank ${item.rRank} by r`;
    }
    if (item.same !== null) {
      parts.push(make("span", { class: "mark", text: item.same ? "✓ same" : `✗ ${samples.className(item.place)}` }));
      words += item.same ? ", same class" : ", another class";
    }
    const kind = item.same === null ? null : item.same ? "same" : "other";
    return make("li", {}, make("a", { href: samples.href(item.place), class: kind, title: words, "aria-label": `${words}; make it the anchor`, "data-similarity": item.cosine.toFixed(6), "data-place": item.place }, ...parts));
  }
  function column(map, kind) {
    const near = samples.near(map, anchor), { own } = samples.opened(map);
    const facts = [];
    if (labels) facts.push(`${near.filter((item) => item.same).length} of the ${near.length} most similar have its class.`);
    if (own) facts.push(`${share(own[anchor] / 65535)} of its push goes to its own class.`);
    return make("div", { "data-side": kind }, make("h3", { text: `Under ${label(map)}` }), make("p", { class: "about", text: facts.join(" ") }),
      make("ol", { class: "near", "aria-label": `Most similar samples under ${label(map)}` }, ...near.map((item) => neighbour(item, map))));
  }
  function show() {
    const other = maps[Number(choice.value)], left = maps[base];
    const facts = [];
    if (labels) {
      const alike = labels.reduce((sum, each, place) => sum + (place !== anchor && each === labels[anchor]), 0);
      facts.push(`Of all ${many(count - 1)} others here, ${many(alike)} have its class, ${share(alike / (count - 1))}.`);
    } else facts.push("There are no labels, so it is unknown which samples are hidden positives.");
    if (samples.drawn(anchor)) facts.push(`Drawn are ${samples.drawn(anchor)}.`);
    const link = make("a", { href: samples.href(anchor), text: "Link to this anchor" });
    find('[data-part="anchor"]').replaceChildren(samples.thumb(anchor, 104), make("div", {}, make("h3", { tabindex: "-1", text: `Anchor: ${samples.named(anchor)}` }), make("p", { text: facts.join(" ") }), make("p", { class: "fine controls" }, link)));
    find('[data-part="beside"]').replaceChildren(column(left, "base"), ...(other === left ? [] : [column(other, "other")]));
    const fine = [left.fine, "The order is by similarity alone: similar samples need not be hidden positives, and hidden positives need not be similar. The share of the push is what the loss of the row gives, with its own weights, when it compares all samples here."];
    for (const map of new Set([left, other])) if (map.hidden) fine.push(`${map.name}: ${map.hidden.about}`);
    if (labels) fine.push("✓ and a solid frame: the anchor’s class; ✗ and a dashed frame: another class.");
    find('[data-text="inspector"]').textContent = fine.join(" ");
  }

  const others = maps.map((map, number) => number).filter((number) => number !== base || maps.length === 1);
  choice.replaceChildren(...others.map((number) => make("option", { value: number, text: label(maps[number]) })));
  choice.value = String(first);
  choice.closest("label").hidden = maps.length === 1;
  choice.addEventListener("change", show);
  find('[data-part="search"]').addEventListener("submit", (event) => {
    event.preventDefault();
    const found = samples.search(search.value);
    const again = found.length > 1 && found.length === matches.length && found.every((place, index) => place === matches[index]);
    matches = found;
    if (!found.length) {
      const here = count < space.count ? `${many(count)} of ${many(space.count)} ${samples.units} are` : `all ${many(count)} ${samples.units} are`;
      said.textContent = search.value.trim() ? `No ${samples.unit} here has this number or name; ${here} on this page.` : `Type a number, or a part of a name${samples.texts ? " or text" : ""}.`;
      return;
    }
    const next = again ? (found.indexOf(anchor) + 1) % found.length : 0;
    said.textContent = found.length > 1 ? `${next + 1} of ${many(found.length)} that match; Find shows the next.` : "";
    location.hash = samples.href(found[next]);
  });
  return {
    choose(place) { anchor = place; show(); },
    missing(number) { said.textContent = `${samples.unit} ${number} is not on this page.`; },
    focus() {
      const card = find('[data-part="anchor"]'), frame = card.getBoundingClientRect();
      if (frame.top < 0 || frame.bottom > innerHeight) card.scrollIntoView({ block: "start" });
      card.querySelector("h3").focus({ preventScroll: true });
    },
  };
}
