// ---- the samples of one part of the page; a place is the index of a sample among them ----

function readSamples(part, space, repaints) {
  const numbers = words32(space.indices), labels = space.labels ? words16(space.labels) : null;
  const { unit, units, names, classes } = space;
  const texts = space.thumbnails && space.thumbnails.kind === "texts" ? space.thumbnails.texts : null;
  const placeOf = new Map(Array.from(numbers, (number, place) => [number, place]));
  const decoded = new Map();
  const className = (place) => (labels ? classes[labels[place]] || `class ${labels[place]}` : null);
  const fileName = (place) => (names ? names[place] : null);
  const nameOf = (place) => (!names ? `${unit} ${numbers[place]}` : /^\d+$/.test(names[place]) ? `${unit} ${names[place]}` : names[place]);
  const named = (place) => `${nameOf(place)}${labels ? `, ${className(place)}` : ""}`;

  function opened(map) {
    if (!decoded.has(map)) {
      const { low, step } = map, dims = low.length, codes = bytes(map.codes), values = new Float32Array(numbers.length * dims);
      for (let i = 0; i < numbers.length; i++) for (let d = 0; d < dims; d++) values[i * dims + d] = low[d] + step[d] * codes[i * dims + d];
      const plane = Float32Array.from(words16(map.plane), (each) => each / 65535), own = map.own && words16(map.own);
      const hidden = map.hidden && { codes: bytes(map.hidden.codes), checks: words16(map.hidden.checks) };
      decoded.set(map, { dims, values, plane, own, hidden });
    }
    return decoded.get(map);
  }
  function product(map, from, to) {
    const { dims, values } = opened(map);
    let sum = 0;
    for (let d = 0; d < dims; d++) sum += values[from * dims + d] * values[to * dims + d];
    return sum;
  }
  const cosineOf = (value) => Math.min(1, Math.max(-1, value));

  // The most similar samples of an anchor, with r where the correction of the run has it.
  function near(map, anchor) {
    const all = [];
    for (let place = 0; place < numbers.length; place++) if (place !== anchor) all.push({ place, product: product(map, anchor, place) });
    all.sort((a, b) => b.product - a.product || a.place - b.place);
    const found = all.slice(0, NEAREST).map((item, index) => ({
      place: item.place, rank: index + 1, cosine: cosineOf(item.product), same: labels ? labels[item.place] === labels[anchor] : null,
    }));
    const { hidden } = opened(map);
    const check = found.reduce((sum, item) => sum + item.rank * item.place, 0) % 65536;
    if (hidden && check === hidden.checks[anchor]) {  // Otherwise rounding put other samples first than where r was computed.
      for (const item of found) item.r = hidden.codes[anchor * found.length + item.rank - 1] / 255;
      for (const item of found) item.rRank = 1 + found.filter((other) => other.r > item.r).length;
    }
    return found;
  }

  return {
    part, space, unit, units, classes, labels, texts, numbers, count: numbers.length,
    className, fileName, nameOf, named, opened, near,
    number: (place) => numbers[place],
    place: (number) => placeOf.get(number),
    similarity: (map, from, to) => cosineOf(product(map, from, to)),
    thumb: thumbnails(space.thumbnails, named, repaints),
    drawn: partDrawn(space.thumbnails),
    // Every sample has an address: a link that can be copied, and that the keyboard reaches.
    href: (place) => `#sample-${part}-${numbers[place]}`,
    // Places whose name is the text, or else whose number, or else whose name or text has it as a part.
    search(text) {
      const wanted = text.trim().toLowerCase(), all = [...numbers.keys()];
      if (!wanted) return [];
      const exact = all.filter((place) => [fileName(place), nameOf(place)].some((name) => name !== null && name.toLowerCase() === wanted));
      if (exact.length) return exact;
      if (/^\d+$/.test(wanted) && placeOf.has(Number(wanted))) return [placeOf.get(Number(wanted))];
      return all.filter((place) => nameOf(place).toLowerCase().includes(wanted) || (texts && texts[place].toLowerCase().includes(wanted)));
    },
  };
}
