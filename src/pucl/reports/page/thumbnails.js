// ---- samples in small: pictures on a sheet, drawings of graphs, or texts ----

// Returns a function that makes an element for the sample at a place, of a size in pixels.
function thumbnails(kept, named, repaints) {
  if (kept && kept.kind === "texts") return (place) => make("span", { class: "thumb words", title: kept.texts[place], text: kept.texts[place] });
  const paint = !kept ? null : kept.kind === "sheet" ? pictures(kept) : drawings(kept);
  if (!paint) return (place) => make("span", { class: "thumb words", text: named(place) });
  const shown = new Set();
  if (kept.kind === "drawings") repaints.push(() => shown.forEach((each) => {
    const canvas = each.deref();
    if (canvas && canvas.isConnected) paint(canvas, Number(canvas.dataset.place), Number(canvas.dataset.size)); else shown.delete(each);
  }));
  return (place, size) => {
    const canvas = make("canvas", { class: "thumb", role: "img", "aria-label": named(place), "data-place": place, "data-size": size });
    shown.add(new WeakRef(canvas));
    paint(canvas, place, size);
    return canvas;
  };
}

function scaled(canvas, size) {
  const ratio = Math.max(2, Math.ceil(devicePixelRatio || 1));  // At least two, so that prints are sharp.
  canvas.width = canvas.height = size * ratio;
  return ratio;
}

function pictures(sheet) {
  const image = new Image();
  const ready = new Promise((resolve) => { image.onload = resolve; image.onerror = resolve; });
  image.src = sheet.src;
  const { side, columns } = sheet;
  return (canvas, place, size) => {
    const ratio = scaled(canvas, size);
    const paint = () => {
      const brush = canvas.getContext("2d");
      brush.imageSmoothingEnabled = side >= 24;
      brush.imageSmoothingQuality = "high";
      brush.drawImage(image, (place % columns) * side, Math.floor(place / columns) * side, side, side, 0, 0, size * ratio, size * ratio);
    };
    if (image.complete && image.naturalWidth) paint(); else ready.then(paint);
  };
}

function drawings(kept) {
  const nodes = bytes(kept.nodes), edges = words16(kept.edges), positions = bytes(kept.positions), ends = bytes(kept.ends);
  const nodeStart = [0], edgeStart = [0];
  nodes.forEach((count, graph) => { nodeStart.push(nodeStart[graph] + count); edgeStart.push(edgeStart[graph] + edges[graph]); });
  return (canvas, place, size) => {
    const ratio = scaled(canvas, size);
    const brush = canvas.getContext("2d"), colours = theme();
    const first = nodeStart[place], count = nodes[place];
    const radius = Math.max(1.1, Math.min(3.4, size / 17 / Math.sqrt(count / 10)));
    const margin = radius + 2, spread = (size - 2 * margin) / 255;
    const x = (node) => margin + positions[2 * (first + node)] * spread, y = (node) => margin + positions[2 * (first + node) + 1] * spread;
    brush.setTransform(ratio, 0, 0, ratio, 0, 0);
    brush.clearRect(0, 0, size, size);
    brush.strokeStyle = colours.line;
    brush.lineWidth = Math.max(0.9, radius / 2.2);
    brush.beginPath();
    for (let edge = edgeStart[place]; edge < edgeStart[place + 1]; edge++) { brush.moveTo(x(ends[2 * edge]), y(ends[2 * edge])); brush.lineTo(x(ends[2 * edge + 1]), y(ends[2 * edge + 1])); }
    brush.stroke();
    brush.fillStyle = colours.ink;
    for (let node = 0; node < count; node++) { brush.beginPath(); brush.arc(x(node), y(node), radius, 0, 7); brush.fill(); }
  };
}

// "20 of 431 nodes", where only a part of a graph is drawn.
function partDrawn(kept) {
  if (!kept || kept.kind !== "drawings") return () => "";
  const nodes = bytes(kept.nodes), sizes = words32(kept.sizes);
  return (place) => (sizes[place] > nodes[place] ? `${nodes[place]} of ${many(sizes[place])} nodes` : "");
}
