"use strict";
(() => {
  const page = JSON.parse(document.getElementById("data").textContent);
  const NEAREST = 24;
  const darkness = matchMedia("screen and (prefers-color-scheme: dark)");
  const paper = matchMedia("print");
  let printing = paper.matches;
  const theme = () => (darkness.matches && !printing ? page.theme.dark : page.theme.light);
  const repaints = [];

  // ---- small tools ----

  function make(tag, attributes, ...children) {
    const target = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name === "text") target.textContent = value;
      else if (name === "on") for (const [event, listener] of Object.entries(value)) target.addEventListener(event, listener);
      else target.setAttribute(name, value === true ? "" : value);
    }
    for (const child of children) if (child !== null && child !== undefined) target.append(child);
    return target;
  }
  const minus = (text) => text.replace("-", "\u2212");
  const fixed = (value, digits) => minus(value.toFixed(digits));
  const share = (value) => (value > 0 && value < 0.01 ? "< 1 %" : value > 0.99 && value < 1 ? "> 99 %" : Math.round(100 * value) + " %");
  const cosines = (value) => fixed(value, value >= 0.99 && value < 1 ? 4 : 3);
  const many = (value) => value.toLocaleString("en-GB");

  function bytes(text) {
    const raw = atob(text);
    const found = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) found[i] = raw.charCodeAt(i);
    return found;
  }
  const words16 = (text) => new Uint16Array(bytes(text).buffer);
  const words32 = (text) => new Uint32Array(bytes(text).buffer);

  function whenResized(element, action) {
    let width = 0;
    new ResizeObserver(() => {
      if (element.clientWidth && element.clientWidth !== width) {
        width = element.clientWidth;
        action(width);
      }
    }).observe(element);
  }

  // ---- the charts ----

  function chooseScores(holder) {
    const choice = holder.querySelector('[data-choice="number"]');
    if (!choice) return;
    choice.addEventListener("change", () => holder.querySelectorAll(".panels").forEach((panels) => {
      panels.hidden = panels.dataset.number !== choice.value;
    }));
  }

  function switchRows(section) {
    section.querySelectorAll("[data-switch]").forEach((button) => button.addEventListener("click", () => {
      const shown = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(shown));
      section.querySelectorAll(`[data-row="${button.dataset.switch}"]`).forEach((drawn) => { drawn.style.display = shown ? "" : "none"; });
    }));
  }

  // ---- thumbnails ----

  function thumbnails(space) {
    const kept = space.thumbnails;
    if (!kept) return null;
    if (kept.kind === "sheet") {
      const image = new Image();
      const ready = new Promise((resolve) => { image.onload = resolve; image.onerror = resolve; });
      image.src = kept.src;
      return (canvas, number, size) => {
        const ratio = scaled(canvas, size);
        const paint = () => {
          const brush = canvas.getContext("2d");
          brush.imageSmoothingEnabled = kept.side >= 24;
          brush.imageSmoothingQuality = "high";
          brush.drawImage(image, (number % kept.columns) * kept.side, Math.floor(number / kept.columns) * kept.side, kept.side, kept.side, 0, 0, size * ratio, size * ratio);
        };
        if (image.complete && image.naturalWidth) paint(); else ready.then(paint);
      };
    }
    const nodes = bytes(kept.nodes), edges = words16(kept.edges), places = bytes(kept.places), ends = bytes(kept.ends);
    const nodeStart = [0], edgeStart = [0];
    nodes.forEach((count, graph) => { nodeStart.push(nodeStart[graph] + count); edgeStart.push(edgeStart[graph] + edges[graph]); });
    return (canvas, number, size) => {
      const ratio = scaled(canvas, size);
      const brush = canvas.getContext("2d"), colours = theme();
      const first = nodeStart[number], count = nodes[number];
      const radius = Math.max(1.1, Math.min(3.4, size / 17 / Math.sqrt(count / 10)));
      const margin = radius + 2, spread = (size - 2 * margin) / 255;
      const x = (node) => margin + places[2 * (first + node)] * spread, y = (node) => margin + places[2 * (first + node) + 1] * spread;
      brush.setTransform(ratio, 0, 0, ratio, 0, 0);
      brush.clearRect(0, 0, size, size);
      brush.strokeStyle = colours.line;
      brush.lineWidth = Math.max(0.9, radius / 2.2);
      brush.beginPath();
      for (let edge = edgeStart[number]; edge < edgeStart[number + 1]; edge++) { brush.moveTo(x(ends[2 * edge]), y(ends[2 * edge])); brush.lineTo(x(ends[2 * edge + 1]), y(ends[2 * edge + 1])); }
      brush.stroke();
      brush.fillStyle = colours.ink;
      for (let node = 0; node < count; node++) { brush.beginPath(); brush.arc(x(node), y(node), radius, 0, 7); brush.fill(); }
    };
  }

  function scaled(canvas, size) {
    const ratio = Math.max(2, Math.ceil(devicePixelRatio || 1));  // At least two, so that prints are sharp.
    canvas.width = canvas.height = size * ratio;
    return ratio;
  }

  // ---- the map and the inspector ----

  function explorer(article, space) {
    const find = (query) => article.querySelector(query);
    const choice = (name) => find(`[data-choice="${name}"]`);
    const box = find('[data-part="canvas"]'), base = find('[data-layer="points"]'), over = find('[data-layer="marks"]'), tip = find('[data-part="tip"]');
    const numbers = words32(space.indices), labels = space.labels ? words16(space.labels) : null;
    const count = numbers.length, units = space.units, unit = space.unit;
    const texts = space.thumbnails && space.thumbnails.kind === "texts" ? space.thumbnails.texts : null;
    article.classList.toggle("reads", texts !== null);
    const paintThumb = texts ? null : thumbnails(space);
    const sizes = space.thumbnails && space.thumbnails.sizes ? words32(space.thumbnails.sizes) : null;
    const drawnNodes = space.thumbnails && space.thumbnails.nodes ? bytes(space.thumbnails.nodes) : null;
    const className = (number) => space.classes[labels[number]] || `class ${labels[number]}`;
    const named = (number) => `${labels ? className(number) + ", " : ""}no. ${many(numbers[number])}`;
    const decoded = new Map();
    const chosenClasses = new Set();
    const view = { zoom: 1, x: 0.5, y: 0.5 };
    let current = space.maps[space.first], anchor = 0, near = [], hovered = -1, side = 0;

    function opened(map) {
      if (!decoded.has(map)) {
        const dims = map.low.length, codes = bytes(map.codes), values = new Float32Array(count * dims);
        for (let i = 0; i < count; i++) for (let d = 0; d < dims; d++) values[i * dims + d] = map.low[d] + map.step[d] * codes[i * dims + d];
        const plane = words16(map.plane), places = new Float32Array(2 * count);
        for (let i = 0; i < 2 * count; i++) places[i] = plane[i] / 65535;
        const r = map.r && { codes: bytes(map.r.codes), checks: words16(map.r.checks) };
        decoded.set(map, { dims, values, places, r });
      }
      return decoded.get(map);
    }
    function product(from, to) {
      const { dims, values } = opened(current);
      let sum = 0;
      for (let d = 0; d < dims; d++) sum += values[from * dims + d] * values[to * dims + d];
      return sum;
    }
    const cosineOf = (value) => Math.min(1, Math.max(-1, value));
    const similarity = (from, to) => cosineOf(product(from, to));

    // Where a sample is on the canvas, and back.
    const margin = 18;
    const across = (value, centre) => side / 2 + (value - centre) * (side - 2 * margin) * view.zoom;
    const px = (number) => across(opened(current).places[2 * number], view.x);
    const py = (number) => across(1 - opened(current).places[2 * number + 1], view.y);

    function shape(brush, kind, x, y, size) {
      if (kind === 0) { brush.moveTo(x + size, y); brush.arc(x, y, size, 0, 6.2832); }
      else if (kind === 1) brush.rect(x - size * 0.9, y - size * 0.9, size * 1.8, size * 1.8);
      else { brush.moveTo(x, y - size * 1.2); brush.lineTo(x + size * 1.1, y + size * 0.8); brush.lineTo(x - size * 1.1, y + size * 0.8); brush.closePath(); }
    }
    function prepared(canvas) {
      const ratio = Math.max(2, devicePixelRatio || 1);
      if (canvas.width !== Math.round(side * ratio)) canvas.width = canvas.height = Math.round(side * ratio);
      const brush = canvas.getContext("2d");
      brush.setTransform(ratio, 0, 0, ratio, 0, 0);
      brush.clearRect(0, 0, side, side);
      return brush;
    }
    function paintPoints() {
      if (!side) return;
      const brush = prepared(base), colours = theme();
      const size = Math.min(7, Math.max(1.7, (side / 620) * Math.sqrt(5000 / count) * 2.3) * Math.sqrt(Math.sqrt(view.zoom)));
      const kinds = labels ? space.classes.length : 1;
      const members = Array.from({ length: kinds }, () => []);
      for (let i = 0; i < count; i++) members[labels ? labels[i] : 0].push(i);
      for (const pass of [false, true]) members.forEach((own, kind) => {
        const lit = !chosenClasses.size || chosenClasses.has(kind);
        if (lit !== pass) return;
        brush.fillStyle = colours.classes[kind % colours.classes.length];
        brush.globalAlpha = lit ? 0.82 : 0.12;
        brush.beginPath();
        for (const i of own) {
          const x = px(i), y = py(i);
          if (x > -9 && y > -9 && x < side + 9 && y < side + 9) shape(brush, Math.floor(kind / colours.classes.length) % 3, x, y, size);
        }
        brush.fill();
      });
      brush.globalAlpha = 1;
      if (labels && kinds <= 20) nameClasses(brush, members, colours);
      base.dataset.drawn = String(count);
    }
    function nameClasses(brush, members, colours) {
      brush.font = `600 ${side < 420 ? 12 : 13.5}px system-ui, sans-serif`;
      brush.textAlign = "center";
      brush.textBaseline = "middle";
      brush.lineJoin = "round";
      const taken = [];
      members.forEach((own, kind) => {
        if (!own.length || (chosenClasses.size && !chosenClasses.has(kind))) return;
        const middle = (of) => { const sorted = own.map(of).sort((a, b) => a - b); return sorted[sorted.length >> 1]; };
        const x = middle(px), text = space.classes[kind], half = brush.measureText(text).width / 2;
        let y = middle(py);
        for (let tries = 0; tries < 12 && taken.some((other) => Math.abs(other.x - x) < other.half + half + 4 && Math.abs(other.y - y) < 17); tries++) y += tries % 2 ? -9 * (tries + 1) : 9 * (tries + 1);
        if (x < -half || y < 0 || x > side + half || y > side) return;
        const inside = Math.min(Math.max(x, half + 6), side - half - 6);
        taken.push({ x: inside, y, half });
        brush.strokeStyle = colours.paper;
        brush.globalAlpha = 0.85;
        brush.lineWidth = 5;
        brush.strokeText(text, inside, y);
        brush.globalAlpha = 1;
        brush.fillStyle = colours.ink;
        brush.fillText(text, inside, y);
      });
    }
    function paintMarks() {
      if (!side) return;
      const brush = prepared(over), colours = theme();
      brush.lineWidth = 1.8;
      for (const item of near) {
        const same = labels && labels[item.number] === labels[anchor];
        brush.strokeStyle = !labels ? colours.ink : same ? colours.same : colours.other;
        brush.setLineDash(labels && !same ? [3, 2.5] : []);
        brush.beginPath();
        brush.arc(px(item.number), py(item.number), 6.5, 0, 7);
        brush.stroke();
      }
      brush.setLineDash([]);
      const ring = (number, radius, width) => {
        for (const [colour, more] of [[colours.paper, 3], [colours.ink, 0]]) {
          brush.strokeStyle = colour;
          brush.lineWidth = width + more;
          brush.beginPath();
          brush.arc(px(number), py(number), radius, 0, 7);
          brush.stroke();
        }
      };
      ring(anchor, 10, 2.6);
      brush.beginPath();
      for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) { brush.moveTo(px(anchor) + 10 * dx, py(anchor) + 10 * dy); brush.lineTo(px(anchor) + 16 * dx, py(anchor) + 16 * dy); }
      brush.stroke();
      if (hovered >= 0) ring(hovered, 7, 1.8);
    }
    const paint = () => { paintPoints(); paintMarks(); };

    function closest(x, y, reach) {
      let best = -1, least = reach * reach;
      for (let i = 0; i < count; i++) {
        const dx = px(i) - x, dy = py(i) - y, distance = dx * dx + dy * dy;
        if (distance < least) { least = distance; best = i; }
      }
      return best;
    }
    function thumb(number, size) {
      if (texts) return make("span", { class: "thumb words", title: texts[number], text: texts[number] });
      if (!paintThumb) return make("span", { class: "thumb words", text: `no. ${many(numbers[number])}` });
      const canvas = make("canvas", { class: "thumb", role: "img", "aria-label": `${unit} ${named(number)}`, "data-number": number, "data-size": size });
      paintThumb(canvas, number, size);
      return canvas;
    }
    function hover(number) {
      if (number === hovered) return;
      hovered = number;
      box.classList.toggle("over", number >= 0);
      paintMarks();
      if (number < 0) { tip.hidden = true; return; }
      const cosine = similarity(anchor, number);
      const size = thumb(number, 88);
      if (paintThumb) size.style.cssText = "width:88px;height:88px";
      const lines = [make("b", { text: labels ? className(number) : `${unit} ${many(numbers[number])}` }), make("div", { text: `no. ${many(numbers[number])}` })];
      if (sizes && sizes[number] > drawnNodes[number]) lines.push(make("div", { text: `${drawnNodes[number]} of ${many(sizes[number])} nodes` }));
      lines.push(make("div", { text: number === anchor ? "the anchor" : `similarity ${cosines(cosine)}` }));
      if (texts) lines.unshift(make("div", { class: "text", text: texts[number] }));
      tip.replaceChildren(paintThumb ? size : "", ...lines);
      tip.hidden = false;
      const x = px(number), y = py(number);
      tip.style.left = `${Math.max(4, x + 16 + tip.offsetWidth > side - 4 ? x - 16 - tip.offsetWidth : x + 16)}px`;
      tip.style.top = `${Math.min(Math.max(4, y - tip.offsetHeight / 2), side - tip.offsetHeight - 4)}px`;
    }

    function choose(number) {
      anchor = Math.min(Math.max(0, number), count - 1);
      const all = [];
      for (let i = 0; i < count; i++) if (i !== anchor) all.push({ number: i, product: product(anchor, i) });
      all.sort((a, b) => b.product - a.product || a.number - b.number);
      for (const item of all) item.cosine = cosineOf(item.product);
      near = all.slice(0, NEAREST).map((item, place) => ({ ...item, rank: place + 1, same: labels ? labels[item.number] === labels[anchor] : null }));
      addHidden();
      choice("anchor").value = numbers[anchor];
      showAnchor(all);
      showNear();
      markStrip();
      hovered = -2;
      hover(-1);
    }
    function addHidden() {
      const { r } = opened(current);
      if (!r) return;
      const check = near.reduce((sum, item) => sum + item.rank * item.number, 0) % 65536;
      if (check !== r.checks[anchor]) return;  // Rounding put other samples first than where r was computed.
      for (const item of near) item.r = r.codes[anchor * near.length + item.rank - 1] / 255;
      for (const item of near) item.place = 1 + near.filter((other) => other.r > item.r).length;
    }
    const hiddenText = (item) => (item.r === undefined ? null : current.r.probability ? `r ${share(item.r)}` : `r rank ${item.place}`);
    function showAnchor(all) {
      const facts = [];
      const item = (...children) => facts.push(make("li", {}, ...children));
      if (labels) item(make("b", { text: String(near.filter((each) => each.same).length) }), ` of these ${near.length} have its class`);
      const last = near[near.length - 1], middle = all[all.length >> 1];
      item(`Similarity: ${cosines(near[0].cosine)} to the nearest, ${cosines(last.cosine)} to number ${last.rank}, ${cosines(middle.cosine)} to the median of all ${many(all.length)}`);
      if (labels) {
        const alike = all.filter((each) => labels[each.number] === labels[anchor]).length;
        const assumed = current.tau === null ? "" : `; the correction of this run assumes ${share(current.tau)} (τ′)`;
        item(make("span", { class: "more", text: `Of all ${many(all.length)} others, ${many(alike)} have its class, ${share(alike / all.length)}${assumed}` }));
      } else item(make("span", { class: "more", text: "There are no labels, so it is unknown which of them are hidden positives" }));
      find('[data-part="anchor"]').replaceChildren(thumb(anchor, 104), make("div", {}, make("h3", { text: `Anchor: ${named(anchor)}` }), make("ul", {}, ...facts)));
    }
    function showNear() {
      find('[data-part="near"]').replaceChildren(...near.map((item) => {
        const parts = [thumb(item.number, 72), make("span", { class: "rank", text: `${item.rank}.` }), make("span", { class: "sim", text: cosines(item.cosine) })];
        let said = `number ${item.rank} by similarity, ${unit} ${named(item.number)}, similarity ${cosines(item.cosine)}`;
        if (item.r !== undefined) {
          parts.push(make("span", { class: "hidden-r", text: hiddenText(item) }));
          said += current.r.probability ? `, probability of a hidden positive ${share(item.r)}` : `, rank ${item.place} by r`;
        }
        if (item.same !== null) {
          parts.push(make("span", { class: "mark", text: item.same ? "✓ same" : `✗ ${className(item.number)}` }));
          said += item.same ? ", same class" : ", another class";
        }
        const button = make("button", { type: "button", class: item.same === null ? "" : item.same ? "same" : "other", title: said, "aria-label": said + "; make it the anchor", "data-similarity": item.cosine.toFixed(6), "data-number": item.number, on: {
          click: () => { choose(item.number); find('[data-part="near"] button').focus({ preventScroll: true }); },
          pointerenter: () => { hovered = item.number; paintMarks(); },
          pointerleave: () => { hovered = -1; paintMarks(); },
        } }, ...parts);
        return make("li", {}, button);
      }));
    }
    function showStrip() {
      const kind = choice("kind").value, strip = find('[data-part="strip"]');
      strip.replaceChildren(...current.suggested[kind].map((each) => {
        const close = cosines(each.closeness), shown = Math.min(NEAREST, count - 1);
        const known = each.same === undefined ? "" : `${each.same} of ${shown} same`;
        const said = `${named(each.anchor)}: mean similarity of its ${shown} nearest ${close}${known ? `, ${each.same} of them have its class` : ""}`;
        return make("button", { type: "button", "data-number": each.anchor, title: said, "aria-label": `Anchor ${said}`, on: { click: () => choose(each.anchor) } },
          thumb(each.anchor, 64), make("span", { text: close }), known ? make("br", {}) : null, known ? make("span", { text: known }) : null);
      }));
      markStrip();
    }
    function markStrip() {
      for (const button of find('[data-part="strip"]').children) button.setAttribute("aria-pressed", String(Number(button.dataset.number) === anchor));
    }
    function aboutR(r) {
      const what = "r is the probability, as the correction of this run sees it, that the pair is a hidden positive.";
      if (r.probability) return `${what} In the last step of the training its expected calibration error was ${fixed(r.error, 3)}, by the labels of pairs with r above 0. So it is shown as a probability.`;
      const why = r.error === null ? "Its calibration was not measured: there are no labels, or nothing was corrected before the training ended" : `In the last step of the training its expected calibration error was ${fixed(r.error, 3)}, by the labels of pairs with r above 0, and r is taken for a probability up to ${page.calibrated}`;
      return `${what} ${why}. So it is shown as a rank among these ${NEAREST}: equal r have equal ranks.`;
    }
    function about() {
      const row = current.name, of = count < space.count ? `${many(count)} of ${many(space.count)}` : `All ${many(count)}`;
      const text = [`${of} ${units} as embedded by ${row}, seed ${current.seed}, laid out by ${current.method}${labels ? " and coloured by class" : ""}.`];
      if (!labels) text.push("The classes are unknown.");
      if (space.note) text.push(space.note);
      if (space.left_out) text.push(`${space.left_out} more ${space.left_out === 1 ? "row has" : "rows have"} no map here; a report of those runs alone has one.`);
      find('[data-text="map"]').textContent = text.join(" ");
      base.setAttribute("aria-label", `Map of ${many(count)} ${units} by ${row}, seed ${current.seed}; arrow keys move from point to point, Enter makes a point the anchor`);
      const fine = [`Similarities are cosines of the encoder’s features, computed in this page from ${current.low.length} rounded numbers per ${unit}. Their error is ${current.error < 0.001 ? "less than 0.001" : `about ${fixed(current.error, 3)}`}, and on average ${Math.round(current.kept * NEAREST)} of the ${NEAREST} truly nearest ${units} are shown.`];
      fine.push("The order is by similarity alone. Similar samples need not be hidden positives, and hidden positives need not be similar. Similarity does not say how many of these are hidden positives.");
      if (current.r) fine.push(aboutR(current.r));
      if (labels) fine.push("✓ and a solid frame: the anchor’s class; ✗ and a dashed frame: another class.");
      find('[data-text="inspector"]').textContent = fine.join(" ");
    }

    // Controls.
    const options = (name, entries) => entries.forEach(([value, text]) => choice(name).append(make("option", { value, text })));
    options("run", space.maps.map((map, number) => [number, `${map.name}, seed ${map.seed}`]));
    choice("run").value = String(space.maps.indexOf(current));
    options("kind", [["closest", "closest neighbours first"], ["lookalikes", "similar samples of other classes"], ["spread", "some of all samples"]].filter(([kind]) => kind in current.suggested));
    choice("run").addEventListener("change", () => { current = space.maps[Number(choice("run").value)]; about(); showStrip(); choose(anchor); paint(); });
    choice("kind").addEventListener("change", showStrip);
    choice("anchor").addEventListener("change", () => {
      const wanted = Number(choice("anchor").value);
      let best = 0;
      numbers.forEach((number, place) => { if (Math.abs(number - wanted) < Math.abs(numbers[best] - wanted)) best = place; });
      choose(best);
    });
    const classes = find('[data-part="classes"]');
    if (labels && space.classes.length <= 40) space.classes.forEach((name, kind) => {
      const mark = make("span", { class: "glyph", "aria-hidden": "true", text: "\u25cf\u25a0\u25b2"[Math.floor(kind / 10) % 3] });
      const colour = () => { mark.style.color = theme().classes[kind % 10]; };
      colour();
      repaints.push(colour);
      const button = make("button", { type: "button", class: "class", "aria-pressed": "false", on: {
        click: () => {
          if (chosenClasses.has(kind)) chosenClasses.delete(kind); else chosenClasses.add(kind);
          button.setAttribute("aria-pressed", String(chosenClasses.has(kind)));
          paintPoints();
        },
      } }, mark, name);
      classes.append(button);
    });

    // Pointer, wheel and keys.
    const hold = () => { const half = 0.5 / view.zoom; view.x = Math.min(Math.max(view.x, half), 1 - half); view.y = Math.min(Math.max(view.y, half), 1 - half); };
    const zoom = (factor, x = side / 2, y = side / 2) => {
      const before = view.zoom;
      view.zoom = Math.min(Math.max(view.zoom * factor, 1), 40);
      const scale = side - 2 * margin;
      view.x += ((x - side / 2) / scale) * (1 / before - 1 / view.zoom);
      view.y += ((y - side / 2) / scale) * (1 / before - 1 / view.zoom);
      hold();
      box.style.touchAction = view.zoom > 1 ? "none" : "";
      hover(-1);
      paint();
    };
    article.querySelectorAll("[data-zoom]").forEach((button) => button.addEventListener("click", () => zoom({ in: 1.6, out: 1 / 1.6, all: 0 }[button.dataset.zoom])));
    const at = (event) => { const frame = base.getBoundingClientRect(); return [event.clientX - frame.left, event.clientY - frame.top]; };
    let drag = null, moved = false;
    base.addEventListener("pointerdown", (event) => { drag = at(event); moved = false; });
    base.addEventListener("pointermove", (event) => {
      const [x, y] = at(event);
      if (drag && (event.buttons & 1) && (moved || Math.hypot(x - drag[0], y - drag[1]) > 5)) {
        moved = true;
        if (view.zoom > 1) {
          if (!base.hasPointerCapture(event.pointerId)) base.setPointerCapture(event.pointerId);
          box.classList.add("moving");
          const scale = (side - 2 * margin) * view.zoom;
          view.x -= (x - drag[0]) / scale; view.y -= (y - drag[1]) / scale;
          drag = [x, y];
          hold();
          hover(-1);
          paint();
        }
        return;
      }
      hover(closest(x, y, 14));
    });
    const drop = () => { drag = null; box.classList.remove("moving"); };
    base.addEventListener("pointerup", drop);
    base.addEventListener("pointercancel", drop);
    base.addEventListener("pointerleave", () => hover(-1));
    base.addEventListener("blur", () => hover(-1));
    base.addEventListener("click", (event) => {
      if (moved) { moved = false; return; }
      const found = closest(...at(event), 22);
      if (found >= 0) choose(found);
    });
    base.addEventListener("dblclick", (event) => zoom(1.6, ...at(event)));
    base.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoom(Math.exp(-event.deltaY / 300), ...at(event));
    }, { passive: false });
    base.addEventListener("keydown", (event) => {
      const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
      const from = hovered >= 0 ? hovered : anchor;
      if (way) {
        event.preventDefault();
        let best = -1, least = Infinity;
        for (let i = 0; i < count; i++) {
          const dx = px(i) - px(from), dy = py(i) - py(from), along = dx * way[0] + dy * way[1], aside = Math.abs(dx * way[1] + dy * way[0]);
          if (along > 0.5 && along + 2.5 * aside < least) { least = along + 2.5 * aside; best = i; }
        }
        if (best >= 0) hover(best);
      } else if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(from); }
      else if (event.key === "+" || event.key === "=") zoom(1.6, px(from), py(from));
      else if (event.key === "-") zoom(1 / 1.6);
      else if (event.key === "Escape") hover(-1);
    });

    whenResized(box, (width) => { side = width; paint(); });
    repaints.push(() => {
      paint();
      if (space.thumbnails && space.thumbnails.kind === "drawings") article.querySelectorAll("canvas[data-number]").forEach((canvas) => paintThumb(canvas, Number(canvas.dataset.number), Number(canvas.dataset.size)));
    });
    about();
    showStrip();
    choose(current.suggested.closest.length ? current.suggested.closest[0].anchor : 0);
  }

  // ---- the whole ----

  const begun = new Set();
  function begin(number) {
    if (begun.has(number)) return;
    begun.add(number);
    const article = document.getElementById(`part-${number}`), space = page.maps[number];
    chooseScores(article);
    switchRows(article);
    if (space) explorer(article, space);
  }
  const tabs = [...document.querySelectorAll('[role="tab"]')];
  function open(number) {
    tabs.forEach((tab, each) => {
      tab.setAttribute("aria-selected", String(each === number));
      tab.tabIndex = each === number ? 0 : -1;
      document.getElementById(`part-${each}`).hidden = each !== number;
    });
    begin(number);
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
  begin(0);

  const repaint = () => repaints.forEach((action) => action());
  const onPaper = (state) => { if (printing !== state) { printing = state; repaint(); } };
  darkness.addEventListener("change", repaint);
  paper.addEventListener("change", () => onPaper(paper.matches));
  addEventListener("beforeprint", () => onPaper(true));
  addEventListener("afterprint", () => onPaper(false));
})();
