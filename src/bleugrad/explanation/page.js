"use strict";
// Draws the page from the numbers in #data. Texts are only ever set as text, never as markup.
(() => {
  const checkpoints = JSON.parse(document.getElementById("data").textContent);
  const {references, units: unitsOf, score, in_words: inWords} = checkpoints[0];  // the same in all of them
  const tip = document.getElementById("tip");
  const tokens = references.flat();
  const units = unitsOf.flat();
  const firsts = (groups) => new Set(groups.slice(0, -1).reduce((sums, group) =>
    [...sums, (sums.at(-1) ?? 0) + group.length], []));
  const firstTokens = firsts(references);
  const firstUnits = firsts(unitsOf);
  const unit = inWords ? "word" : "token";
  const last = checkpoints.length - 1;
  const state = {step: last, view: inWords ? 0 : 1};  // view 0: tokens, where words are counted

  // ---- small helpers ----
  const number = (value) => value === null ? "none"
    : value !== 0 && Math.abs(value) < 5e-5 ? value.toExponential(2) : value.toFixed(4);
  const isAbove = ({exact, bound}) => bound > exact + 1e-12;
  const shown = () => checkpoints[state.step];
  const order = () => Math.max(1, state.view);

  function make(tag, options = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(options)) {
      if (name === "class") node.className = value;
      else if (name === "style") for (const [key, set] of Object.entries(value)) node.style.setProperty(key, set);
      else node.setAttribute(name, value);
    }
    node.append(...children);
    return node;
  }

  function draw(tag, options, ...children) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(options)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  }

  // ---- the tip: what is under the pointer or has the focus ----
  const tips = new WeakMap();

  function showTip(target) {
    const content = tips.get(target)();
    tip.replaceChildren(make("b", {}, content.title), ...content.lines.map(([name, value]) =>
      make("div", {}, make("span", {}, name), make("span", {}, value))));
    tip.hidden = false;
    const box = target.getBoundingClientRect();
    const {offsetWidth: width, offsetHeight: height} = tip;
    const room = document.documentElement.clientWidth - width - 8;
    const below = box.bottom + 8 + height <= innerHeight;
    const wanted = target.matches("tr") ? box.left + 24 : box.left + box.width / 2 - width / 2;
    tip.style.left = `${Math.max(8, Math.min(wanted, room))}px`;
    tip.style.top = `${below ? box.bottom + 8 : Math.max(8, box.top - height - 8)}px`;
  }

  function tipped(node, content) {
    tips.set(node, content);
    node.setAttribute("aria-describedby", "tip");
    return node;
  }

  const tippedOf = (event) => {
    let node = event.target instanceof Element ? event.target : null;
    while (node && !tips.has(node)) node = node.parentElement;
    return node;
  };

  function light(node) {
    document.querySelectorAll(".lit").forEach((lit) => lit.classList.remove("lit"));
    if (!node) return;
    const column = node.dataset.column;
    if (node.matches("tr.ngram")) {
      for (const place of node.dataset.columns.split(" ")) {
        document.querySelector(`#probabilities thead [data-column="${place}"]`)?.classList.add("lit");
      }
    } else {
      const table = node.closest("table");
      table.querySelector(`thead [data-column="${column}"]`)?.classList.add("lit");
      node.parentElement.querySelector("th")?.classList.add("lit");
    }
  }

  function point(node) {
    light(node);
    if (node) showTip(node);
    else tip.hidden = true;
  }

  const focused = () => tips.has(document.activeElement) ? document.activeElement : null;
  addEventListener("mouseover", (event) => point(tippedOf(event) ?? focused()));
  addEventListener("focusin", (event) => point(tippedOf(event)));
  addEventListener("focusout", () => point(null));
  addEventListener("scroll", () => { if (!tip.hidden && !focused()) point(null); }, {capture: true, passive: true});
  addEventListener("keydown", (event) => { if (event.key === "Escape") point(null); });

  // Arrow keys move through a grid of rows of cells; one cell at a time can be reached with Tab.
  function roving(host, cells) {
    const flat = cells.flat();
    flat.forEach((cell) => cell.setAttribute("tabindex", "-1"));
    flat[0]?.setAttribute("tabindex", "0");
    host.addEventListener("focusin", (event) => {
      if (!flat.includes(event.target)) return;
      flat.forEach((cell) => cell.setAttribute("tabindex", cell === event.target ? "0" : "-1"));
    });
    host.addEventListener("keydown", (event) => {
      const row = cells.findIndex((some) => some.includes(event.target));
      if (row < 0) return;
      const column = cells[row].indexOf(event.target);
      const end = cells[row].length - 1;
      const whole = event.ctrlKey;
      const to = {ArrowUp: [row - 1, column], ArrowDown: [row + 1, column], ArrowLeft: [row, column - 1],
        ArrowRight: [row, column + 1], Home: [whole ? 0 : row, 0],
        End: [whole ? cells.length - 1 : row, end]}[event.key];
      if (!to) return;
      event.preventDefault();
      const target = cells[to[0]]?.[to[1]];
      if (!target) return;
      target.focus({preventScroll: true});
      target.scrollIntoView({block: "nearest", inline: "nearest"});
      point(target);
    });
  }

  // ---- heat maps ----
  // columns: [{key, text, apart}]; cell(t, key): {text, alpha, tint, none, tip}; tail(t): a further cell or null
  function heatMap(host, {label, columns, cell, tail, tailTitle}) {
    const at = shown();
    const header = make("tr", {}, make("th", {scope: "col"}, make("span", {class: "quiet"}, "")),
      ...columns.map(({key, text, apart}) =>
        make("th", {scope: "col", "data-column": key, class: apart ? "apart" : "", title: text},
          make("span", {}, text))),
      ...(tail ? [make("th", {scope: "col", class: "norm quiet"}, tailTitle)] : []));
    const cells = at.argmax.map((_, t) => columns.map(({key, apart}) => {
      const {text, alpha, tint, none, tip: content} = cell(t, key);
      const node = make("td", {
        role: "gridcell", "data-row": t, "data-column": key,
        class: [apart && "apart", none && "none", alpha > .6 && "dark"].filter(Boolean).join(" "),
        style: {"--alpha": alpha.toFixed(3), ...(tint ? {"--tint": `var(--${tint})`} : {})},
      }, text);
      return tipped(node, content);
    }));
    const body = at.argmax.map((text, t) => make("tr", {},
      make("th", {scope: "row", title: text}, make("small", {}, String(t + 1)), text),
      ...cells[t], ...(tail ? [tail(t)] : [])));
    const table = make("table", {role: "grid", "aria-label": label},
      make("thead", {}, header), make("tbody", {}, ...body));
    const wide = make("div", {class: "grid"}, table);
    host.replaceChildren(wide);
    roving(wide, cells);
  }

  const percent = (value) => value >= .02 ? String(Math.round(100 * value)) : "";
  const place = (t) => `position ${t + 1}`;

  function tokenTip(t, j) {
    const at = shown();
    const lines = [
      ["probability", number(at.match_probs[t][j])],
      [`likeliest: ${at.argmax[t]}`, number(at.argmax_probs[t])],
      ["gradient on its logit", number(at.gradient[t][j])],
    ];
    if (at.eos_probs) lines.push(["position reached", number(at.reach[t])]);
    return {title: `${tokens[j]} at ${place(t)}`, lines};
  }

  function endTip(t) {
    const at = shown();
    return {title: `end at ${place(t)}`, lines: [
      ["probability", number(at.eos_probs[t])], ["gradient on its logit", number(at.eos_gradient[t])],
      ["position reached", number(at.reach[t])]]};
  }

  const ngramAt = (n, j) => shown().orders[n - 1].ngrams.find((ngram) => ngram.columns.includes(j));

  function windowTip(t, j, n) {
    const at = shown();
    const value = at.orders[n - 1].windows[t][j];
    const ngram = ngramAt(n, j);
    const lines = [["probability from here on", number(value)]];
    if (!inWords && value !== null) {
      const factors = [...Array(n).keys()].map((k) => at.match_probs[t + k][j + k].toFixed(3));
      lines.push(["factors", factors.join(" × ")]);
    }
    lines.push(["expected matches, exact", number(ngram.exact)],
      ["the bound", number(ngram.bound)]);
    return {title: `${ngram.text.join(" ")} from ${place(t)}`, lines};
  }

  function drawProbabilities() {
    const at = shown();
    const n = state.view;
    const byToken = n === 0 || (n === 1 && !inWords);
    const end = at.eos_probs ? [{key: "end", text: "(end)", apart: true}] : [];
    const columns = byToken
      ? [...tokens.map((text, key) => ({key, text, apart: firstTokens.has(key)})), ...end]
      : units.map((_, key) => ({key, apart: firstUnits.has(key)})).filter(({key}) => ngramAt(n, key))
        .map((column) => ({...column, text: ngramAt(n, column.key).text.join(" ")}));
    const cell = (t, key) => {
      const value = key === "end" ? at.eos_probs[t] : byToken ? at.match_probs[t][key] : at.orders[n - 1].windows[t][key];
      return {
        text: value === null ? "–" : percent(value), none: value === null, alpha: value === null ? 0 : value ** .6,
        tip: () => key === "end" ? endTip(t) : byToken ? tokenTip(t, key) : windowTip(t, key, n),
      };
    };
    heading.textContent = byToken ? "Match probabilities G" : `Windows of ${n} ${unit}${n > 1 ? "s" : ""}`;
    explained.textContent = byToken
      ? "Rows: positions of the hypothesis, named by their likeliest token. Columns: reference tokens. A cell is the "
        + "probability, in percent, of that token at that position. The loss needs nothing else from the model."
      : `A cell is the probability, in percent, that the ${n === 1 ? unit : `${n}-gram`} of its column starts at `
        + `that position${at.eos_probs ? ", if the hypothesis reaches it" : ""}.`;
    heatMap(probabilities, {label: heading.textContent, columns, cell});
  }

  function drawGradient() {
    const at = shown();
    const {gradient, eos_gradient: ends, gradient_norm: norms} = at;
    const most = Math.max(1e-300, ...gradient.flat().map(Math.abs), ...(ends ?? []).map(Math.abs));
    const longest = Math.max(1e-300, ...norms);
    const end = at.eos_probs ? [{key: "end", text: "(end)", apart: true}] : [];
    const cell = (t, key) => {
      const value = key === "end" ? ends[t] : gradient[t][key];
      const share = Math.abs(value) / most;
      return {
        text: share < .05 ? "" : value < 0 ? "↑" : "↓", alpha: share ** .6, tint: value < 0 ? "raise" : "lower",
        tip: () => key === "end" ? endTip(t) : tokenTip(t, key),
      };
    };
    heatMap(gradients, {
      label: "Gradient on the logits", columns: [...tokens.map((text, key) =>
        ({key, text, apart: firstTokens.has(key)})), ...end], cell, tailTitle: "norm",
      tail: (t) => make("td", {class: "norm"}, make("span", {}, number(norms[t])),
        make("span", {class: "meter", style: {width: `${(100 * norms[t] / longest).toFixed(1)}%`}})),
    });
    strongest.textContent = `darkest: ${number(most)}`;
  }

  // ---- expected BLEU ----
  function drawScale() {
    const at = shown();
    const left = (value) => `${(100 * value).toFixed(3)}%`;
    const mark = (kind, value) => make("span", {class: `mark ${kind}`, style: {left: left(value)}});
    const low = at.lower ?? 0;
    const parts = [0, .25, .5, .75, 1].map((value) =>
      make("span", {class: "tick", style: {left: left(value)}}, make("span", {}, String(100 * value))));
    if (at.upper !== null) {
      parts.push(make("span", {class: at.lower === null ? "band open" : "band",
        style: {left: left(low), width: left(Math.max(0, at.upper - low))}}));
    }
    parts.push(make("span", {class: "axis"}), mark("bar", at.bound_value), mark("diamond", at.argmax_value));
    if (at.sampled) {
      const [mean, error] = at.sampled;
      const [from, to] = [Math.max(0, mean - 2 * error), Math.min(1, mean + 2 * error)];
      parts.push(make("span", {class: "whisker", style: {left: left(from), width: left(to - from)}}),
        mark("dot", mean));
    }
    scale.replaceChildren(...parts);
    const kinds = {certified: "band", sampled: "dot", "paper's bound": "bar", argmax: "diamond"};
    tiles.replaceChildren(...Object.entries(at.summary).map(([name, value]) => make("div", {},
      make("dt", {}, ...(kinds[name] ? [make("span", {class: `key ${kinds[name]}`})] : []), name),
      make("dd", {}, value))));
  }

  function drawCourse() {
    if (last === 0) return;
    const all = checkpoints;
    const x = (index) => (1000 * index / last).toFixed(2);
    const y = (value) => (100 * (1 - value)).toFixed(2);
    const path = (values) => values.map((value, index) => `${x(index)},${y(value)}`);
    const sure = [...path(all.map((at) => at.upper ?? 0)), ...path(all.map((at) => at.lower ?? 0)).reverse()];
    const middle = all.map((at) => at.sampled ? at.sampled[0] : at.value);
    const chart = draw("svg", {viewBox: "0 0 1000 100", preserveAspectRatio: "none", "aria-hidden": "true"},
      draw("polygon", {class: "sure", points: sure.join(" ")}),
      draw("polyline", {class: "line argmax", points: path(all.map((at) => at.argmax_value)).join(" ")}),
      draw("polyline", {class: "line", points: path(middle).join(" ")}),
      draw("line", {class: "now", x1: x(state.step), x2: x(state.step), y1: 0, y2: 100}));
    chart.addEventListener("click", (event) => {
      const box = chart.getBoundingClientRect();
      go(Math.round(last * (event.clientX - box.left) / box.width));
    });
    course.replaceChildren(chart, make("p", {class: "quiet"}, `From 0 to 100 over the checkpoints: ${all[0].upper === null ? "" : "band = certified interval, "}`
      + `line = ${all[0].sampled ? "sampled" : "exact matches"}, dashed = argmax. Click to select a checkpoint.`));
  }

  // ---- n-grams ----
  function drawOrders() {
    const rows = shown().orders.map((at, index) => make("tr", {class: index + 1 === order() ? "chosen" : ""},
      make("th", {scope: "row"}, String(index + 1)),
      make("td", {class: "number"}, number(at.exact)),
      make("td", {class: `number${isAbove(at) ? " above" : ""}`}, number(at.bound)),
      make("td", {class: "number"}, number(at.total)),
      make("td", {class: "number"}, number(at.precision)),
      make("td", {class: "above"}, isAbove(at) ? "▲ above" : "")));
    orders.replaceChildren(make("table", {class: "orders"}, make("thead", {}, make("tr", {},
      ...["order", "exact matches", "bound", "total", "precision", ""].map((text) => make("th", {scope: "col"}, text)))),
    make("tbody", {}, ...rows)));
  }

  function drawNgrams() {
    const n = order();
    const at = shown().orders[n - 1];
    const most = Math.max(1e-300, ...at.ngrams.flatMap(({exact, bound}) => [exact, bound]));
    const meter = (value) => make("span", {class: "meter", style: {width: `${(100 * value / most).toFixed(1)}%`}});
    const rows = at.ngrams.map((ngram, index) => {
      const {exact, bound, clip} = ngram;
      const [text, above] = [ngram.text.join(" "), isAbove(ngram)];
      const row = make("tr", {class: "ngram", "data-index": index, "data-columns": ngram.columns.join(" ")},
        make("td", {title: text}, text, ...(clip > 1 ? [` × ${clip}`] : [])),
        make("td", {class: "number"}, number(exact)),
        make("td", {class: `number${above ? " above" : ""}`}, number(bound)),
        make("td", {class: `number${above ? " above" : ""}`}, `${above ? "▲ +" : ""}${number(bound - exact)}`),
        make("td", {class: "bars"}, meter(exact), meter(bound)));
      return tipped(row, () => ({title: text, lines: [
        ["maximum matches", String(clip)], ["expected matches, exact", number(exact)],
        ["the bound", number(bound)], ["bound − exact", number(bound - exact)]]}));
    });
    const above = at.ngrams.filter(isAbove).length;
    const empty = make("tr", {}, make("td", {colspan: 5, class: "quiet"}, `The references have no ${n}-gram.`));
    ngrams.replaceChildren(make("table", {class: "ngrams", "aria-label": `${n}-grams`},
      make("thead", {}, make("tr", {}, ...[`${n}-gram`, "exact", "bound", "bound − exact", ""].map((text, index) =>
        make("th", {scope: "col", class: index === 4 ? "bars" : ""}, text)))),
      make("tbody", {}, ...(rows.length ? rows : [empty])),
      make("tfoot", {}, make("tr", {}, make("th", {scope: "row"}, `sum (total ${at.total.toFixed(2)})`),
        make("td", {class: "number"}, number(at.exact)), make("td", {class: "number"}, number(at.bound)),
        make("td", {class: "number"}, number(at.bound - at.exact)), make("td", {class: "bars"})))));
    roving(ngrams, rows.map((row) => [row]));
    counted.textContent = `Expected matches of each ${n}-gram of the reference: the exact value and the paper's bound. `
      + `${above === 0 ? "The bound never exceeds the exact value."
        : `▲ The bound exceeds the exact value for ${above} of ${rows.length} ${n}-grams. It is a lower bound only for `
        + `${inWords ? "tokens" : "n-grams"} that occur once and do not overlap themselves.`}`;
  }

  // ---- the page ----
  function segments(name, title, entries, chosen, change) {
    const inputs = entries.map(([value, text]) => {
      const input = make("input", {type: "radio", name, value});
      input.checked = value === chosen;
      input.addEventListener("change", () => change(value));
      return make("label", {}, input, make("span", {}, text));
    });
    return make("fieldset", {}, make("legend", {}, title), make("div", {class: "segments"}, ...inputs));
  }

  function go(step) {
    state.step = Math.max(0, Math.min(last, step));
    if (slider) {
      slider.value = state.step;
      slider.setAttribute("aria-valuetext", shown().name);
      stepName.textContent = shown().name;
    }
    redraw();
  }

  function redraw() {
    point(null);
    drawScale();
    drawCourse();
    drawProbabilities();
    drawOrders();
    drawNgrams();
    drawGradient();
  }

  const block = (id, kind = "") => make("div", {id, class: kind});
  const scale = make("div", {class: "scale", id: "scale", "aria-hidden": "true"});
  const tiles = make("dl", {class: "tiles", id: "tiles"});
  const course = block("course", "course");
  const heading = make("h2", {id: "heading"});
  const explained = make("p", {class: "quiet"});
  const probabilities = block("probabilities");
  const orders = block("orders", "wide");
  const ngrams = block("ngrams", "wide");
  const counted = make("p", {class: "quiet", id: "counted"});
  const gradients = block("gradients");
  const strongest = make("span");
  const swatch = (alpha, tint) => make("i", {style: {"--alpha": alpha, ...(tint ? {"--tint": `var(--${tint})`} : {})}});

  const slider = last > 0 ? make("input", {type: "range", id: "step", min: 0, max: last, step: 1}) : null;
  const stepName = make("output", {for: "step"});
  slider?.addEventListener("input", () => go(Number(slider.value)));
  const views = shown().orders.map((_, index) => [index + 1, `${index + 1}`]);
  const controls = make("div", {class: "controls"},
    segments("order", "n-grams of order", inWords ? [[0, "tokens"], ...views] : views, state.view,
      (value) => { state.view = value; redraw(); }),
    ...(slider ? [make("div", {class: "stepper"}, make("label", {for: "step"}, "checkpoint"), slider, stepName)] : []));

  const legend = make("p", {class: "legend"}, ...[.05, .25, .5, .75, 1].map((value) =>
    make("span", {}, swatch((value ** .6).toFixed(3)), ` ${100 * value} %`)),
  make("span", {}, "point at a cell or use the arrow keys to see its numbers"));
  const pushes = make("p", {class: "legend"}, make("span", {}, swatch(.8, "raise"), " ↑ descent raises the logit"),
    make("span", {}, swatch(.8, "lower"), " ↓ descent lowers it"), strongest);

  document.getElementById("page").append(
    ...references.map((reference, index) => make("p", {class: "reference"},
      make("span", {class: "quiet"}, references.length > 1 ? `Reference ${index + 1}: ` : "Reference: "),
      reference.join(" "))),
    make("p", {class: "quiet"}, `${score}, in ${unit}s; `
      + `${shown().eos_probs ? "random length: the hypothesis ends before its first end token" : "fixed length"}.`),
    controls,
    make("h2", {}, "Expected score, times 100"), scale, tiles, course,
    make("div", {class: "beside"}, make("section", {}, heading, explained, probabilities, legend),
      make("section", {}, make("h2", {}, "Expected matches"), orders, counted, ngrams)),
    make("h2", {}, "Gradient on each token"),
    make("p", {class: "quiet"}, "The gradient of the loss on the logit of each reference token, and its norm over the "
      + "whole vocabulary."),
    gradients, pushes);
  go(state.step);
})();
