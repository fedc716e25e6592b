"use strict";
(() => {
  const page = JSON.parse(document.getElementById("data").textContent);
  const NEAREST = 24;
  const SVG = "http://www.w3.org/2000/svg";
  const DASHES = ["", "7 4", "2 3"];
  const darkness = matchMedia("screen and (prefers-color-scheme: dark)");
  const paper = matchMedia("print");
  let printing = paper.matches;
  const theme = () => (darkness.matches && !printing ? page.theme.dark : page.theme.light);
  const repaints = [];

  // ---- small tools ----

  function put(target, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name === "text") target.textContent = value;
      else if (name === "on") for (const [event, listener] of Object.entries(value)) target.addEventListener(event, listener);
      else target.setAttribute(name, value === true ? "" : value);
    }
    for (const child of children) if (child !== null && child !== undefined) target.append(child);
    return target;
  }
  const make = (tag, attributes, ...children) => put(document.createElement(tag), attributes, children);
  const draw = (tag, attributes, ...children) => put(document.createElementNS(SVG, tag), attributes, children);
  const minus = (text) => text.replace("-", "\u2212");
  const fixed = (value, digits) => minus(value.toFixed(digits));
  const share = (value) => (value > 0 && value < 0.01 ? "< 1 %" : value > 0.99 && value < 1 ? "> 99 %" : Math.round(100 * value) + " %");
  const cosines = (value) => fixed(value, value >= 0.99 && value < 1 ? 4 : 3);
  const many = (value) => value.toLocaleString("en-GB");
  const short = (value) => {
    const size = Math.abs(value);
    return minus(size >= 100 ? value.toFixed(0) : size >= 10 ? value.toFixed(1) : size >= 0.01 || size === 0 ? value.toFixed(3) : value.toPrecision(2));
  };

  function bytes(text) {
    const raw = atob(text);
    const found = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) found[i] = raw.charCodeAt(i);
    return found;
  }
  const words16 = (text) => new Uint16Array(bytes(text).buffer);
  const words32 = (text) => new Uint32Array(bytes(text).buffer);

  function ticks(low, high, wanted, whole) {
    const rough = (high - low) / Math.max(1, wanted);
    const power = 10 ** Math.floor(Math.log10(rough));
    let step = power * ([1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999) || 10);
    if (whole) step = Math.max(1, Math.round(step));
    const found = [];
    for (let tick = Math.ceil(low / step - 1e-9) * step; tick <= high + step * 1e-9; tick += step) found.push(Math.abs(tick) < step * 1e-9 ? 0 : tick);
    const digits = Math.max(0, Math.min(6, -Math.floor(Math.log10(step) + 1e-9)));
    return found.map((tick) => ({ at: tick, digits }));
  }

  function whenResized(element, action) {
    let width = 0;
    new ResizeObserver(() => {
      if (element.clientWidth && element.clientWidth !== width) {
        width = element.clientWidth;
        action(width);
      }
    }).observe(element);
  }

  // ---- the table ----

  function sortable(table) {
    const heads = [...table.tHead.rows[0].cells];
    const body = table.tBodies[0];
    const first = [...body.rows];
    heads.forEach((head, column) => {
      head.querySelector("button").addEventListener("click", () => {
        const before = head.getAttribute("aria-sort");
        const text = column === 0;
        const order = before === "none" ? (text ? "ascending" : "descending") : before === (text ? "ascending" : "descending") ? (text ? "descending" : "ascending") : "none";
        heads.forEach((other) => other.setAttribute("aria-sort", other === head ? order : "none"));
        const value = (row) => row.cells[column].dataset.value;
        const sorted = order === "none" ? first : [...first].sort((one, other) => {
          const a = value(one), b = value(other);
          if (a === undefined || b === undefined) return (a === undefined) - (b === undefined);
          const way = text ? a.localeCompare(b, "en") : Number(a) - Number(b);
          return order === "ascending" ? way : -way;
        });
        body.append(...sorted);
      });
    });
  }

  // ---- dots with intervals ----

  function dotPlot(holder, part) {
    const choice = make("select", {});
    part.probes.forEach((probe) => choice.append(make("option", { value: probe.key, text: probe.name })));
    if (part.probes.length > 1) holder.append(make("div", { class: "controls" }, make("label", {}, "Classifier ", choice)));
    const panels = make("div", { class: "panels" });
    holder.append(panels);
    const redraw = () => {
      const probe = part.probes.find((each) => each.key === choice.value) || part.probes[0];
      panels.replaceChildren();
      const rows = part.rows.map((row, number) => ({ ...row, number }));
      const scored = rows.filter((row) => row.scores[probe.key] && row.scores[probe.key].mean !== null);
      const paired = rows.filter((row) => row.differences[probe.key] && row.differences[probe.key].low !== null);
      const several = scored.some((row) => row.scores[probe.key].seeds.length > 1);
      const accuracies = scored.map((row) => {
        const score = row.scores[probe.key];
        return { ...row, ...score };
      });
      const figures = [[`Accuracy by the ${probe.name}, %`, several ? "mean, its 95 % interval, and the seeds" : "one seed each", accuracies, null, [0, 100]]];
      if (paired.length) {
        const differences = paired.map((row) => {
          const { mean, low, high, said } = row.differences[probe.key];
          return { ...row, mean, ends: [low, high], seeds: [], said };
        });
        figures.push([`Difference to ${part.base}, percentage points`, "paired by seed, with its 95 % interval", differences, 0, [-100, 100]]);
      }
      const drawers = figures.map(([title, meaning, items, zero, range]) => {
        const figure = make("figure", {}, make("figcaption", {}, make("b", { text: title }), make("span", { text: meaning })));
        panels.append(figure);
        return () => {
          const old = figure.querySelector("svg");
          if (old) old.remove();
          const base = zero === null ? items.find((item) => item.name === part.base) : null;
          figure.append(dots(figure.clientWidth, title, items, zero === null ? (base ? base.mean : null) : zero, range));
        };
      });
      drawers.forEach((drawer) => drawer());
    };
    choice.addEventListener("change", redraw);
    whenResized(holder, redraw);
  }

  function limits(items, zero, range) {
    const all = items.flatMap((item) => [item.mean, ...item.seeds]);
    const several = items.filter((item) => item.trained).length > 1;
    const kept = several ? items.filter((item) => item.trained) : items;
    const values = kept.flatMap((item) => [item.mean, ...item.seeds]);
    let low = Math.min(...values), high = Math.max(...values);
    if (zero !== null) { low = Math.min(low, zero); high = Math.max(high, zero); }
    // Intervals of two seeds may reach very far: they end in an arrow where they would leave nothing to see.
    const reach = 2 * Math.max(high - low, 0.5), ends = kept.flatMap((item) => item.ends || []);
    [low, high] = [Math.min(low, Math.max(low - reach, Math.min(low, ...ends))), Math.max(high, Math.min(high + reach, Math.max(high, ...ends)))];
    // What was not trained, far off, would press all others into one place.
    if (low - Math.min(...all) < high - low) low = Math.min(low, ...all);
    const slack = Math.max(0.08 * (high - low), 0.2);
    return [Math.max(low - slack, range[0]), Math.min(high + slack, range[1])];
  }

  function dots(width, title, items, reference, range) {
    const longest = Math.max(...items.map((item) => item.name.length));
    const left = Math.min(longest * 7.2 + 14, width * 0.34), right = 56, step = 30, top = 6;
    const height = top + step * items.length + 26;
    const [low, high] = limits(items, reference, range);
    const x = (value) => left + ((value - low) / (high - low)) * (width - left - right);
    const label = items.map((item) => `${item.name} ${item.said}`).join(", ");
    const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": `${title}: ${label}` });
    for (const tick of ticks(low, high, (width - left - right) / 70)) {
      svg.append(draw("line", { class: "grid", x1: x(tick.at), x2: x(tick.at), y1: top, y2: height - 24 }), draw("text", { x: x(tick.at), y: height - 8, "text-anchor": "middle", text: fixed(tick.at, tick.digits) }));
    }
    if (reference !== null) svg.append(draw("line", { class: "base", x1: x(reference), x2: x(reference), y1: top, y2: height - 24 }));
    items.forEach((item, place) => {
      const y = top + step * (place + 0.5), colour = `var(--row-${item.number})`;
      const inside = (value) => Math.min(Math.max(x(value), left), width - right);
      const name = draw("text", { class: "ink", x: left - 12, y: y + 4, "text-anchor": "end", text: clipped(item.name, (left - 14) / 7) });
      name.append(draw("title", { text: item.name }));
      svg.append(name);
      if (item.ends) {
        svg.append(draw("line", { x1: inside(item.ends[0]), x2: inside(item.ends[1]), y1: y, y2: y, style: `stroke:${colour};stroke-width:2` }));
        if (item.ends[0] < low) svg.append(draw("path", { d: `M${left - 5} ${y}l8 -4.5v9z`, style: `fill:${colour}` }));
        if (item.ends[1] > high) svg.append(draw("path", { d: `M${width - right + 5} ${y}l-8 -4.5v9z`, style: `fill:${colour}` }));
      }
      item.seeds.length > 1 && item.seeds.forEach((seed) => svg.append(draw("circle", { cx: inside(seed), cy: y + 9, r: 2.2, style: `fill:${colour};opacity:.65` })));
      const past = item.mean < low ? -1 : item.mean > high ? 1 : 0;
      if (past) {
        const at = past < 0 ? left + 2 : width - right - 2;
        svg.append(draw("path", { d: `M${at} ${y}l${-past * 9} -6v12z`, style: `fill:${colour}` }));
      } else {
        svg.append(draw("circle", { cx: x(item.mean), cy: y, r: 5.5, style: `fill:${colour}` }));
      }
      svg.append(draw("text", { class: "ink", x: width - right + 10, y: y + 4, text: item.said }));
    });
    return svg;
  }
  const clipped = (text, most) => (text.length > most ? text.slice(0, Math.max(1, Math.floor(most) - 1)) + "…" : text);

  // ---- curves ----

  function curves(holder, part) {
    const shown = new Set(part.curves.flatMap((panel) => panel.rows.map((row) => row.row)));
    const order = [...shown].sort((one, other) => one - other);
    const dash = dashes(part);
    const legend = make("div", { class: "legend", role: "group", "aria-label": "Rows that are shown" });
    const grid = make("div", { class: "curves" });
    const several = part.curves.some((panel) => panel.rows.some((row) => row.seeds.length > 1));
    const lines = several ? "Thick lines are means over seeds, thin ones the seeds. " : "";
    holder.append(make("p", { class: "about" }, lines, make("span", { class: "controls inline", text: "Names switch rows off and on." })), legend, grid);
    const drawers = part.curves.map((panel) => {
      const figure = make("figure", { class: "curve" }, make("figcaption", {}, make("b", { text: panel.title }), make("span", { text: panel.meaning })));
      grid.append(figure);
      return curve(figure, panel, part, shown, dash);
    });
    const redraw = () => drawers.forEach((drawer) => drawer());
    order.forEach((number) => {
      const sample = draw("svg", { viewBox: "0 0 26 12", "aria-hidden": "true" }, draw("line", { x1: 1, x2: 25, y1: 6, y2: 6, style: `stroke:var(--row-${number});stroke-width:3;stroke-dasharray:${dash[number] || "none"}` }));
      const button = make("button", { type: "button", class: "row", "aria-pressed": "true", on: {
        click: () => {
          if (shown.has(number)) shown.delete(number); else shown.add(number);
          button.setAttribute("aria-pressed", String(shown.has(number)));
          redraw();
        },
      } }, sample, part.rows[number].name);
      legend.append(button);
    });
    whenResized(grid, redraw);
  }

  function dashes(part) {
    const seen = new Map();
    return part.rows.map((row) => {
      const kind = row.kind, count = seen.get(kind) || 0;
      seen.set(kind, count + 1);
      return DASHES[count % DASHES.length];
    });
  }

  function averaged(seeds) {
    const sums = new Map();
    for (const seed of seeds) for (const [epoch, value] of seed.points) {
      const [total, count] = sums.get(epoch) || [0, 0];
      sums.set(epoch, [total + value, count + 1]);
    }
    return [...sums].sort((one, other) => one[0] - other[0]).map(([epoch, [total, count]]) => [epoch, total / count]);
  }

  function curve(figure, panel, part, shown, dash) {
    const height = 216, left = 48, right = 12, top = 8, bottom = 28;
    const means = panel.rows.map((row) => ({ ...row, mean: averaged(row.seeds) }));
    const epochs = [...new Set(means.flatMap((row) => row.mean.map((point) => point[0])))].sort((one, other) => one - other);
    const said = (value) => (panel.percent ? fixed(100 * value, 1) + " %" : short(value));
    const tip = make("div", { class: "tip", hidden: true });
    let place = -1;
    let drawn = null;
    const redraw = () => {
      const width = figure.clientWidth;
      if (!width) return;
      const rows = means.filter((row) => shown.has(row.row));
      const old = figure.querySelector("svg");
      const focused = old !== null && document.activeElement === old;
      if (old) old.remove();
      tip.hidden = true;
      const values = (rows.length ? rows : means).flatMap((row) => row.seeds.flatMap((seed) => seed.points.map((point) => point[1])));
      let low = Math.min(...values), high = Math.max(...values);
      if (panel.zero) { low = Math.min(0, low); high = Math.max(high, 0.05); }
      else if (high - low < 1e-6) { low -= 0.5; high += 0.5; }
      const slack = 0.05 * (high - low);
      low -= slack; high += slack;
      if (panel.percent) high = Math.min(high, 1);
      if (panel.percent && !panel.zero) low = Math.max(low, 0);
      const first = epochs.length > 1 ? epochs[0] : epochs[0] - 1, last = epochs[epochs.length - 1];
      const x = (epoch) => left + ((epoch - first) / (last - first)) * (width - left - right);
      const y = (value) => top + (1 - (value - low) / (high - low)) * (height - top - bottom);
      const ends = rows.map((row) => `${part.rows[row.row].name} ${said(row.mean[row.mean.length - 1][1])}`).join(", ");
      const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", tabindex: "0", "aria-label": `${panel.title} over ${many(last)} ${last === 1 ? "epoch" : "epochs"}; at the end ${ends || "nothing is shown"}. Arrow keys read other epochs.` });
      for (const tick of ticks(low, high, 4)) {
        svg.append(draw("line", { class: "grid", x1: left, x2: width - right, y1: y(tick.at), y2: y(tick.at) }),
          draw("text", { x: left - 8, y: y(tick.at) + 4, "text-anchor": "end", text: panel.percent ? fixed(100 * tick.at, Math.max(0, tick.digits - 2)) + " %" : fixed(tick.at, tick.digits) }));
      }
      for (const tick of ticks(first, last, Math.max(2, (width - left - right) / 60), true)) {
        if (tick.at < first || tick.at > last) continue;
        svg.append(draw("text", { x: x(tick.at), y: height - 8, "text-anchor": "middle", text: fixed(tick.at, 0) }));
      }
      svg.append(draw("line", { class: "axis", x1: left, x2: width - right, y1: height - bottom + 4, y2: height - bottom + 4 }));
      const path = (points) => points.map(([epoch, value], number) => `${number ? "L" : "M"}${x(epoch).toFixed(1)} ${y(value).toFixed(1)}`).join("");
      for (const row of rows) {
        const colour = `stroke:var(--row-${row.row})`;
        if (row.seeds.length > 1) for (const seed of row.seeds) svg.append(draw("path", { class: "seed", d: path(seed.points), style: colour }));
        if (row.mean.length === 1) svg.append(draw("circle", { cx: x(row.mean[0][0]), cy: y(row.mean[0][1]), r: 4, style: `fill:var(--row-${row.row})` }));
        else svg.append(draw("path", { class: "mean", d: path(row.mean), style: `${colour};stroke-dasharray:${dash[row.row] || "none"}`, "data-row": row.row }));
      }
      const cross = draw("g", {});
      svg.append(cross);
      svg.addEventListener("pointermove", (event) => {
        const at = first + ((event.clientX - svg.getBoundingClientRect().left - left) / (width - left - right)) * (last - first);
        show(nearestTo(at));
      });
      svg.addEventListener("pointerleave", hide);
      svg.addEventListener("blur", hide);
      svg.addEventListener("keydown", (event) => {
        const way = { ArrowLeft: -1, ArrowRight: 1, Home: -1e9, End: 1e9 }[event.key];
        if (event.key === "Escape") hide();
        if (!way) return;
        event.preventDefault();
        show(Math.min(Math.max((place < 0 ? (way < 0 ? epochs.length : -1) : place) + way, 0), epochs.length - 1));
      });
      drawn = { rows, x, y, cross, width };
      figure.append(svg, tip);
      if (focused) svg.focus();
    };
    const nearestTo = (at) => epochs.reduce((best, epoch, number) => (Math.abs(epoch - at) < Math.abs(epochs[best] - at) ? number : best), 0);
    const hide = () => { place = -1; tip.hidden = true; if (drawn) drawn.cross.replaceChildren(); };
    const show = (number) => {
      place = number;
      const epoch = epochs[number], { rows, x, y, cross, width } = drawn;
      const found = rows.map((row) => ({ row, point: row.mean.find((point) => point[0] === epoch) })).filter((each) => each.point).sort((one, other) => other.point[1] - one.point[1]);
      cross.replaceChildren(draw("line", { class: "cross", x1: x(epoch), x2: x(epoch), y1: top, y2: height - bottom + 4 }),
        ...found.map((each) => draw("circle", { cx: x(epoch), cy: y(each.point[1]), r: 3.6, style: `fill:var(--row-${each.row.row})` })));
      if (!found.length) { tip.hidden = true; return; }
      tip.replaceChildren(make("b", { text: `epoch ${many(epoch)}` }), make("table", {}, make("tbody", {}, ...found.map((each) => {
        const seeds = each.row.seeds.map((seed) => seed.points.find((point) => point[0] === epoch)).filter(Boolean).map((point) => point[1]);
        const range = seeds.length > 1 ? ` (${said(Math.min(...seeds))} to ${said(Math.max(...seeds))})` : "";
        return make("tr", {}, make("th", { scope: "row" }, make("span", { class: "swatch", style: `--c:var(--row-${each.row.row})` }), clipped(part.rows[each.row.row].name, 22)), make("td", { text: said(each.point[1]) + (found.length < 6 ? range : "") }));
      }))));
      tip.hidden = false;
      const at = x(epoch), size = tip.offsetWidth;
      tip.style.left = `${Math.max(0, at + 14 + size > width ? at - 14 - size : at + 14)}px`;
      tip.style.top = `${figure.querySelector("svg").offsetTop === undefined ? 44 : figure.querySelector("figcaption").offsetHeight + 10}px`;
    };
    return redraw;
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
    const ratio = Math.max(2, Math.ceil(devicePixelRatio || 1));  // At least two, so that paper is sharp.
    canvas.width = canvas.height = size * ratio;
    return ratio;
  }

  // ---- the map and the inspector ----

  function explorer(article, part) {
    const space = part.space;
    const find = (query) => article.querySelector(query);
    const choice = (name) => find(`[data-choice="${name}"]`);
    const box = find('[data-part="canvas"]'), base = find('[data-layer="points"]'), over = find('[data-layer="marks"]'), tip = find('[data-part="tip"]');
    const numbers = words32(space.places), labels = space.labels ? words16(space.labels) : null;
    const count = numbers.length, unit = space.unit, one = unit === "graphs" ? "graph" : "image";
    const paintThumb = thumbnails(space);
    const sizes = space.thumbnails && space.thumbnails.sizes ? words32(space.thumbnails.sizes) : null;
    const drawnNodes = space.thumbnails && space.thumbnails.nodes ? bytes(space.thumbnails.nodes) : null;
    const className = (number) => space.classes[labels[number]] || `class ${labels[number]}`;
    const named = (number) => `${labels ? className(number) + ", " : ""}no. ${many(numbers[number])}`;
    const decoded = new Map();
    const chosenClasses = new Set();
    const view = { zoom: 1, x: 0.5, y: 0.5 };
    // The first look is at a corrected run, where there is one.
    const kindOf = (map) => part.rows[map.row].kind;
    const firstMap = space.maps.find((map) => kindOf(map) === "pucl") || space.maps.find((map) => part.rows[map.row].trained) || space.maps[0];
    let current = firstMap, anchor = 0, near = [], hovered = -1, side = 0;

    function opened(map) {
      if (!decoded.has(map)) {
        const dims = map.low.length, codes = bytes(map.codes), values = new Float32Array(count * dims);
        for (let i = 0; i < count; i++) for (let d = 0; d < dims; d++) values[i * dims + d] = map.low[d] + map.step[d] * codes[i * dims + d];
        const plane = words16(map.plane), places = new Float32Array(2 * count);
        for (let i = 0; i < 2 * count; i++) places[i] = plane[i] / 65535;
        decoded.set(map, { dims, values, places });
      }
      return decoded.get(map);
    }
    function similarity(from, to) {
      const { dims, values } = opened(current);
      let sum = 0;
      for (let d = 0; d < dims; d++) sum += values[from * dims + d] * values[to * dims + d];
      return Math.min(1, Math.max(-1, sum));
    }

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
      if (!paintThumb) return make("span", { class: "thumb words", text: `no. ${many(numbers[number])}` });
      const canvas = make("canvas", { class: "thumb", role: "img", "aria-label": `${one} ${named(number)}`, "data-number": number, "data-size": size });
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
      const lines = [make("b", { text: labels ? className(number) : `${one} ${many(numbers[number])}` }), make("div", { text: `no. ${many(numbers[number])}` })];
      if (sizes && sizes[number] > drawnNodes[number]) lines.push(make("div", { text: `${drawnNodes[number]} of ${many(sizes[number])} nodes` }));
      lines.push(make("div", { text: number === anchor ? "the anchor" : `similarity ${cosines(cosine)}` }));
      tip.replaceChildren(paintThumb ? size : "", ...lines);
      tip.hidden = false;
      const x = px(number), y = py(number);
      tip.style.left = `${Math.max(4, x + 16 + tip.offsetWidth > side - 4 ? x - 16 - tip.offsetWidth : x + 16)}px`;
      tip.style.top = `${Math.min(Math.max(4, y - tip.offsetHeight / 2), side - tip.offsetHeight - 4)}px`;
    }

    function choose(number) {
      anchor = Math.min(Math.max(0, number), count - 1);
      const all = [];
      for (let i = 0; i < count; i++) if (i !== anchor) all.push({ number: i, cosine: similarity(anchor, i) });
      all.sort((a, b) => b.cosine - a.cosine || a.number - b.number);
      near = all.slice(0, NEAREST).map((item, place) => ({ ...item, rank: place + 1, same: labels ? labels[item.number] === labels[anchor] : null }));
      choice("anchor").value = numbers[anchor];
      showAnchor(all);
      showNear();
      markStrip();
      hovered = -2;
      hover(-1);
    }
    function showAnchor(all) {
      const facts = [];
      const item = (...children) => facts.push(make("li", {}, ...children));
      if (labels) item(make("b", { text: String(near.filter((each) => each.same).length) }), ` of these ${near.length} are of its class`);
      const last = near[near.length - 1], middle = all[all.length >> 1];
      item(`Similarity ${cosines(near[0].cosine)} of the nearest, ${cosines(last.cosine)} of number ${last.rank}, ${cosines(middle.cosine)} of the middle one of all ${many(all.length)}`);
      if (labels) {
        const alike = all.filter((each) => labels[each.number] === labels[anchor]).length;
        const assumed = current.tau === null ? "" : `; the correction of this run assumes ${share(current.tau)} (τ′)`;
        item(make("span", { class: "more", text: `Of all ${many(all.length)} others, ${many(alike)} are of its class, ${share(alike / all.length)}${assumed}` }));
      } else item(make("span", { class: "more", text: "Which of them are hidden positives is not known: there are no labels" }));
      find('[data-part="anchor"]').replaceChildren(thumb(anchor, 104), make("div", {}, make("h3", { text: `Anchor: ${named(anchor)}` }), make("ul", {}, ...facts)));
    }
    function showNear() {
      const order = choice("order").value;
      const sorted = [...near];
      if (order === "class") sorted.sort((a, b) => b.same - a.same || labels[a.number] - labels[b.number] || b.cosine - a.cosine);
      if (order === "least") sorted.reverse();
      const list = find('[data-part="near"]');
      list.replaceChildren(...sorted.map((item) => {
        const parts = [thumb(item.number, 72), make("span", { class: "rank", text: `${item.rank}.` }), make("span", { class: "sim", text: cosines(item.cosine) })];
        let said = `number ${item.rank} by similarity, ${one} ${named(item.number)}, similarity ${cosines(item.cosine)}`;
        if (item.same !== null) {
          parts.push(make("span", { class: "mark", text: item.same ? "✓ same" : `✗ ${className(item.number)}` }));
          said += item.same ? ", of the same class" : ", of another class";
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
        const close = cosines(each.closeness), shown = current.average.shown;
        const known = each.same === undefined ? "" : `${each.same} of ${shown} same`;
        const said = `${named(each.anchor)}: mean similarity of its ${shown} nearest ${close}${known ? `, ${each.same} of them of its class` : ""}`;
        return make("button", { type: "button", "data-number": each.anchor, title: said, "aria-label": `Anchor ${said}`, on: { click: () => choose(each.anchor) } },
          thumb(each.anchor, 64), make("span", { text: close }), known ? make("br", {}) : null, known ? make("span", { text: known }) : null);
      }));
      markStrip();
    }
    function markStrip() {
      for (const button of find('[data-part="strip"]').children) button.setAttribute("aria-pressed", String(Number(button.dataset.number) === anchor));
    }
    function about() {
      const row = part.rows[current.row].name, of = count < space.count ? `${many(count)} of ${many(space.count)}` : `All ${many(count)}`;
      const text = [`${of} ${unit} as ${row}, seed ${current.seed}, sees them, laid out by ${current.method}${labels ? " and coloured by class" : ""}.`];
      if (!labels) text.push("The classes are not known.");
      if (space.note) text.push(space.note);
      if (space.left) text.push(`Of ${space.left} more ${space.left === 1 ? "row" : "rows"} there is no map here; a report of those runs alone has it.`);
      find('[data-text="map"]').textContent = text.join(" ");
      base.setAttribute("aria-label", `Map of ${many(count)} ${unit} by ${row}, seed ${current.seed}; arrow keys go from point to point, Enter makes one the anchor`);
      const fine = [`Similarities are cosines of the encoder’s features, computed in this page from ${current.low.length} rounded numbers per ${one}: they are off by ${current.error < 0.001 ? "less than 0.001" : `about ${fixed(current.error, 3)}`}, and ${Math.round(current.kept * NEAREST)} of the ${NEAREST} truly nearest are shown on average.`];
      fine.push("The order is by similarity alone. Similar samples need not be hidden positives, and hidden positives need not be similar: how many of these are, similarity does not tell.");
      const { same, by_chance, shown } = current.average;
      if (same !== null) {
        fine.push(`By the labels, ${fixed(same, 1)} of ${shown} are of the anchor’s class in the mean over all anchors; drawn at random, ${fixed(by_chance, 1)} would be.`);
        fine.push("✓ and a solid frame: of the anchor’s class; ✗ and a dashed frame: of another.");
      }
      find('[data-text="inspector"]').textContent = fine.join(" ");
    }

    // Controls.
    const options = (name, entries) => entries.forEach(([value, text]) => choice(name).append(make("option", { value, text })));
    options("run", space.maps.map((map, number) => [number, `${part.rows[map.row].name}, seed ${map.seed}`]));
    choice("run").value = String(space.maps.indexOf(current));
    options("kind", [["closest", "closest neighbours first"], ["lookalikes", "look-alikes of other classes"], ["spread", "a few of all"]].filter(([kind]) => kind in current.suggested));
    options("order", [["most", "most similar first"], ["least", "least similar first"], ...(labels ? [["class", "by class"]] : [])]);
    choice("run").addEventListener("change", () => { current = space.maps[Number(choice("run").value)]; about(); showStrip(); choose(anchor); paint(); });
    choice("kind").addEventListener("change", showStrip);
    choice("order").addEventListener("change", showNear);
    choice("anchor").addEventListener("change", () => {
      const wanted = Number(choice("anchor").value);
      let best = 0;
      numbers.forEach((number, place) => { if (Math.abs(number - wanted) < Math.abs(numbers[best] - wanted)) best = place; });
      choose(best);
    });
    const classes = find('[data-part="classes"]');
    if (labels && space.classes.length <= 40) space.classes.forEach((name, kind) => {
      const mark = draw("svg", { viewBox: "0 0 26 12", "aria-hidden": "true" });
      const form = Math.floor(kind / 10) % 3;
      const colour = () => `fill:${theme().classes[kind % 10]}`;
      const dot = form === 0 ? draw("circle", { cx: 13, cy: 6, r: 5 }) : form === 1 ? draw("rect", { x: 8, y: 1, width: 10, height: 10 }) : draw("path", { d: "M13 0l6 11h-12z" });
      dot.style.cssText = colour();
      repaints.push(() => { dot.style.cssText = colour(); });
      mark.append(dot);
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
    const article = document.getElementById(`part-${number}`), part = page.parts[number];
    article.querySelectorAll("section table").forEach((table) => table.tHead && sortable(table));
    const dotsHolder = article.querySelector('[data-chart="dots"]'), curvesHolder = article.querySelector('[data-chart="curves"]');
    if (dotsHolder) dotPlot(dotsHolder, part);
    if (curvesHolder) curves(curvesHolder, part);
    if (typeof part.space === "object") explorer(article, part);
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
  if (page.parts.length) begin(0);

  const repaint = () => repaints.forEach((action) => action());
  const onPaper = (state) => { if (printing !== state) { printing = state; repaint(); } };
  darkness.addEventListener("change", repaint);
  paper.addEventListener("change", () => onPaper(paper.matches));
  addEventListener("beforeprint", () => onPaper(true));
  addEventListener("afterprint", () => onPaper(false));
})();
