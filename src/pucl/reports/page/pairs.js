// ---- the costliest pairs, and the files of them ----

const PAIRS_AT_FIRST = 12;
// The columns of `pucl suspects`, as far as the page knows them; and the share of the push, and texts.
function pairRows(samples, list) {
  const { number, fileName, className, texts } = samples;
  return list.pairs.map((pair) => ({
    first: number(pair.first), second: number(pair.second), first_name: fileName(pair.first), second_name: fileName(pair.second),
    similarity: pair.similarity, cost: pair.share * (pair.r === null ? 1 : pair.r), share: pair.share, r: pair.r,
    first_label: className(pair.first), second_label: className(pair.second),
    ...(texts ? { first_text: texts[pair.first], second_text: texts[pair.second] } : {}),
  }));
}

function asCsv(rows) {
  const cell = (value) => {
    const text = value === null ? "" : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [Object.keys(rows[0]), ...rows.map(Object.values)].map((cells) => cells.map(cell).join(",") + "\n").join("");
}

function showPairs(article, samples) {
  const find = (query) => article.querySelector(query);
  const { space, labels, count } = samples, lists = space.pairs, map = space.maps[space.base];
  const holder = find('[data-part="pairs"]'), choice = find('[data-choice="list"]'), more = find('[data-part="more"]');
  const list = () => lists[Number(choice.value)];
  const average = 2 / (count * (count - 1));

  function item(pair) {
    const { first, second, similarity, r } = pair;
    const same = labels && labels[first] === labels[second];
    const side = (place) => make("a", { href: samples.href(place), title: `make ${samples.named(place)} the anchor` },
      samples.thumb(place, 72), make("span", { class: "of", text: samples.nameOf(place) }), labels ? make("span", { class: "class", text: samples.className(place) }) : null);
    const facts = [`similarity ${cosines(similarity)}`, `${fixed(pair.share / average, 1)} × the average push`];
    if (r !== null && list().probability) facts.splice(1, 0, `r ${share(r)}`);
    const mark = labels ? make("span", { class: "mark", text: same ? "✓ one class" : "✗ two classes" }) : null;
    return make("li", { class: labels ? (same ? "same" : "other") : null }, make("div", { class: "two" }, side(first), side(second)),
      make("p", {}, mark, ...facts.map((text) => make("span", { text }))));
  }
  // The first pairs that share no sample: the costliest are often those of a few samples.
  function apart(pairs) {
    const seen = new Set(), chosen = [];
    for (const pair of pairs) if (chosen.length < PAIRS_AT_FIRST && !seen.has(pair.first) && !seen.has(pair.second)) {
      chosen.push(pair);
      seen.add(pair.first).add(pair.second);
    }
    return chosen;
  }
  function show(whole) {
    const { pairs } = list(), shown = whole ? pairs : apart(pairs);
    holder.replaceChildren(...shown.map(item));
    more.hidden = shown.length === pairs.length;
    more.textContent = `Show all ${pairs.length} pairs, in the order of their cost`;
    const all = count < space.count ? `the ${many(count)} of ${many(space.count)} ${samples.units} on this page` : `all ${many(count)} ${samples.units}`;
    const times = pairs.some((pair) => pair.r !== null) ? ", times r" : "";
    article.querySelectorAll("[data-download]").forEach((button) => { button.disabled = !pairs.length; });
    const rest = count < space.count ? " pucl suspects lists pairs of all." : "";
    const none = pairs.length ? "" : " There are no such pairs.";
    find('[data-text="pairs"]').textContent = `The push of a loss is the gradient that moves samples away from an anchor. The cost of a pair is the share of it that the pair takes when plain’s loss compares ${all} by the features of ${map.name}, seed ${map.seed}${times}. ${list().about}${rest}${none}`;
  }
  options(choice, lists.map((each) => each.name), 0);
  choice.addEventListener("change", () => show(false));
  more.addEventListener("click", () => { show(true); holder.querySelector("a").focus({ preventScroll: true }); });
  article.querySelectorAll("[data-download]").forEach((button) => button.addEventListener("click", () => {
    const rows = pairRows(samples, list()), { name, about } = list();
    if (button.dataset.download === "csv") download("costliest-pairs.csv", "text/csv", asCsv(rows));
    else download("costliest-pairs.json", "application/json", JSON.stringify({ by: name, about, row: map.name, seed: map.seed, pairs: rows }, null, 1) + "\n");
  }));
  show(false);
}
