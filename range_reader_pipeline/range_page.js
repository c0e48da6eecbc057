/* Draws the reads that the page carries. Text from the data becomes text nodes only, never markup. */
(() => {
  const byId = (id) => document.getElementById(id);
  const { DATA, COMBOS, SIZES, STARTS, rowOf, classSums, deadCards, isDead, numLive, rangeText, percent, cellPercent, rankText } = Reads;
  const READERS = ["model", "baseline"];
  const READER_NAMES = { model: "Model", baseline: DATA.baselineName };
  const SUITS = { c: ["♣", "club"], d: ["♦", "diamond"], h: ["♥", "heart"], s: ["♠", "spade"] };
  const MAX_RANK = COMBOS.length;
  const MAX_BITS = Math.log2(MAX_RANK);
  const ROW_PX = 26; // height of a step in the betting line; the stylesheet says the same
  const FULL_COLOUR = 0.2; // class probability drawn in the strongest colour
  const PLAY_MS = 900;
  const NARROW = "(max-width: 700px)"; // the stylesheet's too

  // ---- words -----------------------------------------------------------------------------------------------------
  function element(tag, properties = {}, ...children) {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(properties)) {
      if (key === "role" || key.startsWith("aria-")) node.setAttribute(key, value);
      else node[key] = value;
    }
    node.append(...children);
    return node;
  }
  function card(name) {
    const [glyph, word] = SUITS[name[1]];
    return element("span", { className: `card ${name[1]}`, role: "img", "aria-label": `${name[0]} of ${word}s` }, name[0] + glyph);
  }
  const cardPair = (combo) => [card(combo.slice(0, 2)), card(combo.slice(2))];
  function withCards(text) {
    return text.split(/\b([2-9TJQKA][cdhs])\b/).map((part, i) => (i % 2 ? card(part) : part));
  }
  const shape = (size) => ({ 6: "pair", 4: "suited", 12: "offsuit" })[size];

  // ---- the page's state --------------------------------------------------------------------------------------------
  let hand = null;
  let index = 0;
  let timer = null;
  let wanted = null; // the hand being opened; a slower one must not replace a later choice
  let focused = null; // [grid, class index] of the hand whose combos are shown
  const cells = {};

  const cellParts = (name) => [element("span", { className: "name" }, name), element("span", { className: "percent" })];
  function buildGrid(reader) {
    const grid = byId(`${reader}-grid`);
    cells[reader] = DATA.classes.map((name, i) => {
      const cell = element("button", { type: "button", className: "cell", tabIndex: i ? -1 : 0, role: "gridcell" }, ...cellParts(name));
      cell.dataset.index = String(i);
      return cell;
    });
    for (let start = 0; start < 169; start += 13) {
      grid.append(element("div", { className: "row", role: "row" }, ...cells[reader].slice(start, start + 13)));
    }
    const indexOf = (event) => Number(event.target.closest(".cell")?.dataset.index ?? NaN);
    const show = (event) => Number.isNaN(indexOf(event)) || showTip(reader, indexOf(event));
    const showAbove = (event) => { // on a narrow screen the combos lie at the bottom and may cover the hand tapped
      show(event);
      const covered = event.target.getBoundingClientRect().bottom + 12 - byId("tip").getBoundingClientRect().top;
      if (covered > 0 && window.matchMedia(NARROW).matches) window.scrollBy(0, covered);
    };
    grid.addEventListener("pointerover", (event) => event.pointerType === "mouse" && show(event));
    grid.addEventListener("focusin", show);
    grid.addEventListener("click", showAbove);
    grid.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && hideTip());
    grid.addEventListener("focusout", hideTip);
    grid.addEventListener("keydown", (event) => {
      const [row, col] = [Math.floor(indexOf(event) / 13), indexOf(event) % 13];
      const moves = { ArrowLeft: [row, col - 1], ArrowRight: [row, col + 1], ArrowUp: [row - 1, col], ArrowDown: [row + 1, col] };
      const target = { ...moves, Home: [row, 0], End: [row, 12] }[event.key];
      if (event.key === "Escape") hideTip();
      if (!target) return;
      event.preventDefault();
      event.stopPropagation();
      if (target.some((value) => value < 0 || value > 12)) return;
      cells[reader].forEach((cell) => (cell.tabIndex = -1));
      const cell = cells[reader][target[0] * 13 + target[1]];
      cell.tabIndex = 0;
      cell.focus();
    });
  }

  function shade(cell, probability) {
    const value = Math.min(1, (probability / FULL_COLOUR) ** 0.45);
    cell.style.setProperty("--v", value.toFixed(3));
    cell.dataset.bin = String(Math.min(9, Math.floor(value * 10))); // the stylesheet picks the ink that can be read on it
  }
  function paint(cell, probability, hasTruth) {
    shade(cell, probability);
    cell.classList.toggle("truth", hasTruth);
    cell.querySelector(".percent").textContent = cellPercent(probability);
  }
  const truthClass = () => (hand.truth === null ? -1 : STARTS.findLastIndex((start) => start <= COMBOS.indexOf(hand.truth)));

  function drawGrid(reader, step) {
    const dead = deadCards(hand, step);
    classSums(rowOf(hand, step, reader)).forEach((probability, i) => {
      const [cell, live, hasTruth] = [cells[reader][i], numLive(i, dead), i === truthClass()];
      paint(cell, probability, hasTruth);
      cell.classList.toggle("gone", live === 0);
      const words = `${DATA.classes[i]}: ${percent(probability)}, ${live} of ${SIZES[i]} combos live`;
      cell.setAttribute("aria-label", hasTruth ? `${words}, holds the villain’s actual hand` : words);
    });
    const [bits, rank, probability] = step[reader];
    const bold = (text) => element("b", {}, text);
    const figures = [bold(bits.toFixed(2)), " bits ≈ ", bold(Math.round(2 ** bits).toLocaleString("en")), " combos"];
    if (rank !== null) figures.push(" · truth ", bold(percent(probability)), ", rank ", bold(rankText(rank)));
    byId(`${reader}-figures`).replaceChildren(...figures);
  }

  // ---- combos of one hand ------------------------------------------------------------------------------------------
  function showTip(reader, i) {
    focused = [reader, i];
    const step = hand.steps[index];
    const dead = deadCards(hand, step);
    const combos = COMBOS.slice(STARTS[i], STARTS[i] + SIZES[i]);
    const rows = READERS.map((name) => Array.from(rowOf(hand, step, name).subarray(STARTS[i], STARTS[i] + SIZES[i])));
    if (i === truthClass()) READERS.forEach((name, k) => (rows[k][combos.indexOf(hand.truth)] = step[name][2])); // exact
    const sums = rows.map((row) => row.reduce((sum, p) => sum + p, 0));
    const body = combos.map((combo, k) => {
      const row = element("tr", { className: isDead(combo, dead) ? "dead" : combo === hand.truth ? "truth" : "" });
      row.append(element("th", { scope: "row" }, ...cardPair(combo)));
      if (isDead(combo, dead)) row.append(element("td", { colSpan: 2 }, "dead card"));
      else row.append(...rows.map((own) => element("td", {}, percent(own[k]))));
      return row;
    }).reverse();
    const head = ["Combo", "Model", "Static"].map((text) => element("th", { scope: "col" }, text));
    const foot = [element("th", { scope: "row" }, "All"), ...sums.map((sum) => element("td", {}, percent(sum)))];
    const parts = [["thead", [element("tr", {}, ...head)]], ["tbody", body], ["tfoot", [element("tr", {}, ...foot)]]];
    const title = [element("b", {}, DATA.classes[i]), ` ${shape(SIZES[i])}, ${numLive(i, dead)} of ${SIZES[i]} live`];
    const tip = byId("tip");
    tip.replaceChildren(
      element("p", { className: "tip-title" }, ...title),
      element("table", {}, ...parts.map(([tag, rows]) => element(tag, {}, ...rows))));
    tip.hidden = false;
    READERS.forEach((name) => cells[name].forEach((cell, k) => {
      cell.classList.toggle("twin", k === i);
      if (k === i && name === reader) cell.setAttribute("aria-describedby", "tip");
      else cell.removeAttribute("aria-describedby");
    }));
    const box = cells[reader][i].getBoundingClientRect();
    const room = document.documentElement.clientWidth;
    const left = box.right + 10 + tip.offsetWidth < room ? box.right + 10 : Math.max(8, box.left - 10 - tip.offsetWidth);
    tip.style.left = `${left}px`;
    tip.style.top = `${Math.max(8, Math.min(box.top - 20, window.innerHeight - tip.offsetHeight - 8))}px`;
  }
  function hideTip() {
    focused = null;
    byId("tip").hidden = true;
    READERS.forEach((name) => cells[name].forEach((cell) => cell.classList.remove("twin")));
  }

  // ---- betting line and curves -------------------------------------------------------------------------------------
  function buildLine() {
    byId("line").replaceChildren(...hand.steps.map((step, i) => {
      const label = element("span", { className: "label", title: step.label }, ...withCards(step.label));
      const button = element("button", { type: "button" }, label,
        element("span", { className: "number" }, step.model[0].toFixed(1)),
        element("span", { className: "number" }, step.model[1] === null ? "" : rankText(Math.round(step.model[1]))));
      button.addEventListener("click", () => { stop(); go(i); });
      const isNewStreet = i > 0 && step.street !== hand.steps[i - 1].street;
      return element("li", { className: isNewStreet ? "street" : "" }, button);
    }));
    const hasRank = hand.truth !== null;
    byId("tracks").classList.toggle("no-rank", !hasRank);
    buildCurve("entropy", 0, (bits) => bits / MAX_BITS, [[0, "0"], [MAX_BITS, MAX_BITS.toFixed(1)]], "Entropy in bits");
    if (hasRank) buildCurve("rank", 1, (rank) => Math.log(rank) / Math.log(MAX_RANK), [[1, "1"], [36, ""], [MAX_RANK, "1,326"]], "Rank of the villain’s actual hand, logarithmic");
  }
  function buildCurve(name, field, scale, ticks, title) {
    const [svg, axis] = [byId(`${name}-curve`), byId(`${name}-axis`)];
    const width = axis.clientWidth;
    const x = (value) => 6 + scale(value) * (width - 12);
    const y = (i) => (i + 0.5) * ROW_PX;
    const shapeOf = (tag, attributes) => {
      const node = document.createElementNS(svg.namespaceURI, tag);
      Object.entries(attributes).forEach(([key, value]) => node.setAttribute(key, String(value)));
      return node;
    };
    const height = hand.steps.length * ROW_PX;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("width", String(width));
    svg.setAttribute("height", String(height));
    const values = READERS.map((reader) => hand.steps.map((step) => step[reader][field]));
    const words = values.map((row, k) => `${READER_NAMES[READERS[k]]} from ${rankText(row[0])} to ${rankText(row[row.length - 1])}`);
    svg.setAttribute("aria-label", `${title}: ${words.join(", ")}`);
    svg.replaceChildren(shapeOf("rect", { class: "cursor", x: 0, width: width, height: ROW_PX, y: 0 }));
    ticks.forEach(([value]) => svg.append(shapeOf("line", { class: "rule", x1: x(value), x2: x(value), y1: 0, y2: height })));
    [1, 0].forEach((k) => svg.append(shapeOf("polyline", { class: READERS[k], points: values[k].map((value, i) => `${x(value).toFixed(1)},${y(i)}`).join(" ") })));
    values[0].forEach((value, i) => svg.append(shapeOf("circle", { class: "dot", cx: x(value).toFixed(1), cy: y(i), r: 2.5 })));
    axis.replaceChildren(element("b", {}, name === "rank" ? "Truth rank" : "Entropy"), ...ticks.map(([value, text]) => {
      const tick = element("span", {}, text);
      tick.style.left = `${x(value)}px`;
      return tick;
    }));
    svg.onclick = (event) => { stop(); go(Math.floor(event.offsetY / ROW_PX)); };
  }
  function markLine() {
    [...byId("line").children].forEach((item, i) => {
      item.classList.toggle("current", i === index);
      if (i === index) item.firstChild.setAttribute("aria-current", "step");
      else item.firstChild.removeAttribute("aria-current");
    });
    for (const name of ["entropy", "rank"]) {
      const svg = byId(`${name}-curve`);
      svg.querySelector(".cursor")?.setAttribute("y", String(index * ROW_PX));
      svg.querySelectorAll(".dot").forEach((dot, i) => dot.setAttribute("r", i === index ? "4.5" : "2.5"));
    }
    const tracks = byId("tracks");
    const [top, bottom] = [index * ROW_PX, (index + 2) * ROW_PX + 38];
    if (top < tracks.scrollTop) tracks.scrollTop = top;
    else if (bottom > tracks.scrollTop + tracks.clientHeight) tracks.scrollTop = bottom - tracks.clientHeight;
  }

  // ---- print: the last step of each street -------------------------------------------------------------------------
  function buildPaper() {
    const last = hand.steps.filter((step, i) => step.street !== hand.steps[i + 1]?.street);
    byId("paper").replaceChildren(...last.map((step) => element("figure", {},
      element("figcaption", {}, element("b", {}, step.street), " ", ...hand.board.slice(0, step.numBoard).map(card), " after ", ...withCards(step.label)),
      ...READERS.map((reader) => {
        const [bits, rank, probability] = step[reader];
        const grid = element("div", { className: "grid" }, ...classSums(rowOf(hand, step, reader)).map((sum, i) => {
          const cell = element("span", { className: "cell" }, ...cellParts(DATA.classes[i]));
          paint(cell, sum, i === truthClass());
          return cell;
        }));
        const truth = rank === null ? "" : `; truth ${percent(probability)}, rank ${rankText(rank)}`;
        return element("div", {}, element("p", {}, `${READER_NAMES[reader]}: ${bits.toFixed(2)} bits${truth}`), grid);
      }))));
  }

  // ---- moving --------------------------------------------------------------------------------------------------------
  function go(target) {
    index = Math.max(0, Math.min(hand.steps.length - 1, target));
    const step = hand.steps[index];
    const slider = byId("step");
    slider.value = String(index);
    slider.setAttribute("aria-valuetext", `${index + 1} of ${hand.steps.length}: ${step.label}`);
    byId("now").replaceChildren(element("b", {}, ...withCards(step.label)), ` step ${index + 1} of ${hand.steps.length}, ${step.street}`);
    byId("board").replaceChildren(...hand.board.map((name, i) => (i < step.numBoard ? card(name) : element("span", { className: "card back", "aria-hidden": "true" }))));
    byId("previous").disabled = index === 0;
    byId("next").disabled = index === hand.steps.length - 1;
    READERS.forEach((reader) => drawGrid(reader, step));
    markLine();
    writeExport();
    if (focused) showTip(...focused);
  }
  function stop() {
    clearInterval(timer);
    timer = null;
    byId("play").textContent = "Play";
  }
  function play() {
    if (timer !== null) return stop();
    if (index === hand.steps.length - 1) go(0);
    byId("play").textContent = "Pause";
    timer = setInterval(() => {
      go(index + 1);
      if (index === hand.steps.length - 1) stop();
    }, PLAY_MS);
  }
  function writeExport() {
    const step = hand.steps[index];
    byId("export-text").value = rangeText(rowOf(hand, step, byId("export-of").value), deadCards(hand, step), byId("export-as").value === "classes");
    byId("copied").textContent = "";
  }
  async function copy() {
    const area = byId("export-text");
    let isCopied = true;
    if (navigator.clipboard) isCopied = await navigator.clipboard.writeText(area.value).then(() => true, () => false);
    if (!navigator.clipboard || !isCopied) {
      area.select();
      isCopied = document.execCommand("copy");
    }
    byId("copied").textContent = isCopied ? `Copied ${area.value.split(",").length} entries` : "Select the text and copy it by hand";
  }

  async function open(target) {
    stop();
    hideTip();
    wanted = target;
    await Reads.unpack(target);
    if (wanted !== target) return;
    hand = target;
    document.title = `${hand.title} · Range reader`;
    byId("title").textContent = hand.title;
    byId("description").textContent = hand.description;
    byId("hand-id").textContent = hand.id;
    byId("villain").textContent = `seat ${hand.villain}`;
    byId("hero").replaceChildren(hand.hero === null ? "a watcher" : `seat ${hand.hero}`, " ", ...(hand.heroCards ? hand.heroCards.map(card) : ["(cards unseen)"]));
    byId("truth").replaceChildren(...(hand.truth ? cardPair(hand.truth) : ["not known"]));
    byId("hand").value = String(DATA.hands.indexOf(hand));
    byId("step").max = String(hand.steps.length - 1);
    byId("ticks").replaceChildren(...hand.steps.flatMap((step, i) => {
      if (i > 0 && step.street === hand.steps[i - 1].street) return [];
      const tick = element("span", {}, step.street.replace("preflop", "pre"));
      tick.style.left = `${(100 * i) / Math.max(1, hand.steps.length - 1)}%`;
      return [tick];
    }));
    byId("main").hidden = false;
    buildLine();
    buildPaper();
    go(0);
  }
  function openFromAddress() {
    let name = location.hash.slice(1);
    try { name = decodeURIComponent(name); } catch { /* a stray percent sign: take the name as it stands */ }
    const found = DATA.hands.find((item) => item.anchor === name) || DATA.hands.find((item) => item.id === name);
    byId("notice").hidden = !name || Boolean(found);
    byId("notice").textContent = `No hand ${name} on this page; the first one is shown.`;
    if (found && found === hand) return;
    open(found || DATA.hands[0]).catch(fail);
  }
  function fail(error) {
    byId("notice").hidden = false;
    byId("notice").textContent = `This page could not be drawn (${error.message}). It needs a browser from May 2023 or later.`;
  }

  // ---- start ---------------------------------------------------------------------------------------------------------
  READERS.forEach(buildGrid);
  for (const [probability, text] of [[0, "0%"], [0.001, "0.1%"], [0.01, "1%"], [0.05, "5%"], [0.1, "10%"], [FULL_COLOUR, "20%+"]]) {
    const swatch = element("span", { className: "cell" }, text);
    shade(swatch, probability);
    byId("ramp").append(swatch);
  }
  byId("chooser").hidden = DATA.hands.length < 2;
  byId("hand").append(...DATA.hands.map((item, i) => element("option", { value: String(i) }, item.title)));
  byId("hand").addEventListener("change", () => { location.hash = encodeURIComponent(DATA.hands[byId("hand").value].anchor); });
  byId("step").addEventListener("input", () => { stop(); go(Number(byId("step").value)); });
  byId("previous").addEventListener("click", () => { stop(); go(index - 1); });
  byId("next").addEventListener("click", () => { stop(); go(index + 1); });
  byId("play").addEventListener("click", play);
  byId("copy").addEventListener("click", copy);
  byId("export-of").addEventListener("change", writeExport);
  byId("export-as").addEventListener("change", writeExport);
  window.addEventListener("hashchange", openFromAddress);
  window.addEventListener("scroll", () => focused && showTip(...focused), { passive: true });
  window.matchMedia(NARROW).addEventListener("change", () => { if (hand) { buildLine(); markLine(); } });
  document.addEventListener("click", (event) => event.target.closest(".grid") || hideTip());
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("select, textarea, input, .grid") || !hand) return;
    const target = { ArrowLeft: index - 1, ArrowRight: index + 1, Home: 0, End: hand.steps.length - 1 }[event.key];
    if (target === undefined) return;
    event.preventDefault();
    stop();
    go(target);
  });
  openFromAddress();
})();
