// ---- the map ----

function showMap(article, samples, repaints) {
  const find = (query) => article.querySelector(query);
  const { space, labels, classes, count } = samples, { maps } = space;
  const choice = find('[data-choice="map"]');
  const box = find('[data-part="canvas"]'), base = find('[data-layer="points"]'), over = find('[data-layer="marks"]'), tip = find('[data-part="tip"]');
  const chosenClasses = new Set();
  const view = { zoom: 1, x: 0.5, y: 0.5 };
  let current = maps[space.first], anchor = 0, near = [], hovered = -1, side = 0;

  // Where a sample is on the canvas.
  const margin = 18;
  const across = (value, centre) => side / 2 + (value - centre) * (side - 2 * margin) * view.zoom;
  const px = (place) => across(samples.opened(current).plane[2 * place], view.x);
  const py = (place) => across(1 - samples.opened(current).plane[2 * place + 1], view.y);

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
    const brush = prepared(base), colours = theme(), palette = colours.classes;
    const size = Math.min(7, Math.max(1.7, (side / 620) * Math.sqrt(5000 / count) * 2.3) * Math.sqrt(Math.sqrt(view.zoom)));
    const kinds = labels ? classes.length : 1;
    const members = Array.from({ length: kinds }, () => []);
    for (let i = 0; i < count; i++) members[labels ? labels[i] : 0].push(i);
    for (const pass of [false, true]) members.forEach((own, kind) => {
      const lit = !chosenClasses.size || chosenClasses.has(kind);
      if (lit !== pass) return;
      brush.fillStyle = palette[kind % palette.length];
      brush.globalAlpha = lit ? 0.82 : 0.12;
      brush.beginPath();
      for (const i of own) {
        const x = px(i), y = py(i);
        if (x > -9 && y > -9 && x < side + 9 && y < side + 9) shape(brush, Math.floor(kind / palette.length) % 3, x, y, size);
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
      const x = middle(px), text = classes[kind], half = brush.measureText(text).width / 2;
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
    // On paper a second canvas would cover the first one.
    const brush = printing ? base.getContext("2d") : prepared(over), colours = theme();
    brush.lineWidth = 1.8;
    for (const item of near) {
      brush.strokeStyle = item.same === null ? colours.ink : item.same ? colours.same : colours.other;
      brush.setLineDash(item.same === false ? [3, 2.5] : []);
      brush.beginPath();
      brush.arc(px(item.place), py(item.place), 6.5, 0, 7);
      brush.stroke();
    }
    brush.setLineDash([]);
    const ring = (place, radius, width) => {
      for (const [colour, more] of [[colours.paper, 3], [colours.ink, 0]]) {
        brush.strokeStyle = colour;
        brush.lineWidth = width + more;
        brush.beginPath();
        brush.arc(px(place), py(place), radius, 0, 7);
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
  function hover(place) {
    if (place === hovered) return;
    hovered = place;
    box.classList.toggle("over", place >= 0);
    paintMarks();
    if (place < 0) { tip.hidden = true; return; }
    const lines = [make("b", { text: samples.nameOf(place) })];
    if (labels) lines.push(make("div", { text: samples.className(place) }));
    if (samples.drawn(place)) lines.push(make("div", { text: samples.drawn(place) }));
    lines.push(make("div", { text: place === anchor ? "the anchor" : `similarity ${cosines(samples.similarity(current, anchor, place))}` }));
    tip.replaceChildren(...(space.thumbnails ? [samples.thumb(place, 88)] : []), ...lines);
    tip.hidden = false;
    const x = px(place), y = py(place);
    tip.style.left = `${Math.max(4, x + 16 + tip.offsetWidth > side - 4 ? x - 16 - tip.offsetWidth : x + 16)}px`;
    tip.style.top = `${Math.min(Math.max(4, y - tip.offsetHeight / 2), side - tip.offsetHeight - 4)}px`;
  }
  function show() {
    near = samples.near(current, anchor);
    find('[data-text="map"]').textContent = current.about;
    base.setAttribute("aria-label", `Map of ${many(count)} ${samples.units} by ${current.name}, seed ${current.seed}; arrow keys move from point to point, Enter makes a point the anchor`);
    hovered = -2;
    hover(-1);
  }

  options(choice, maps.map((map) => `${map.name}, seed ${map.seed}`), space.first);
  choice.addEventListener("change", () => { current = maps[Number(choice.value)]; show(); paintPoints(); });
  const legend = find('[data-part="classes"]');
  if (labels && classes.length <= 40) classes.forEach((name, kind) => {
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
    legend.append(button);
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
    if (found >= 0) location.hash = samples.href(found);
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
    } else if (event.key === "Enter" || event.key === " ") { event.preventDefault(); location.hash = samples.href(from); }
    else if (event.key === "+" || event.key === "=") zoom(1.6, px(from), py(from));
    else if (event.key === "-") zoom(1 / 1.6);
    else if (event.key === "Escape") hover(-1);
  });

  const measure = () => {
    if (!box.clientWidth || box.clientWidth === side) return;
    side = box.clientWidth;
    paint();
  };
  new ResizeObserver(measure).observe(box);  // A folded map has no size.
  repaints.push(() => { measure(); paint(); });
  return { choose(place) { anchor = place; show(); } };
}
