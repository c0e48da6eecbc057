"use strict";
/* The reads that the page carries: decoding them, and the numbers and texts made from them. Knows no page. */
const Reads = (() => {
  const DATA = JSON.parse(document.getElementById("reads").textContent);
  const COMBOS = DATA.combos.match(/.{4}/g); // class by class, as the rows of probabilities are
  const SIZES = DATA.classes.map((name) => (name.length === 2 ? 6 : name[2] === "s" ? 4 : 12));
  const STARTS = SIZES.map(((sum) => (size) => (sum += size) - size)(0));

  async function decodeRows(text) {
    const deflated = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
    const stream = new Blob([deflated]).stream().pipeThrough(new DecompressionStream("deflate"));
    const planes = new Uint8Array(await new Response(stream).arrayBuffer());
    const half = planes.length / 2;
    const rows = [];
    let codes = new Int32Array(COMBOS.length);
    for (let start = 0; start < half; start += COMBOS.length) {
      codes = codes.map((code, i) => {
        const zigzag = planes[start + i] + 256 * planes[half + start + i];
        return code + (zigzag % 2 ? -(zigzag + 1) / 2 : zigzag / 2);
      });
      const weights = Float64Array.from(codes, (code) => (code / DATA.scale) ** DATA.root);
      const total = weights.reduce((sum, weight) => sum + weight, 0);
      rows.push(weights.map((weight) => weight / total));
    }
    return rows;
  }
  function unpackStep([label, numBoard, baselineRow, model, baseline], i, numBaselines) {
    const street = DATA.streets[Math.max(Math.min(1, numBoard), numBoard - 2)];
    return { label, numBoard, street, model, baseline, row: numBaselines + i, baselineRow };
  }
  async function unpack(hand) {
    if (hand.beliefs) return;
    hand.beliefs = await decodeRows(hand.rows);
    hand.steps = hand.steps.map((step, i) => unpackStep(step, i, hand.numBaselines));
  }

  const rowOf = (hand, step, reader) => hand.beliefs[reader === "model" ? step.row : step.baselineRow];
  const classSums = (row) => STARTS.map((start, i) => row.subarray(start, start + SIZES[i]).reduce((sum, p) => sum + p, 0));
  const deadCards = (hand, step) => new Set([...hand.board.slice(0, step.numBoard), ...(hand.heroCards || [])]);
  const isDead = (combo, dead) => dead.has(combo.slice(0, 2)) || dead.has(combo.slice(2));
  const numLive = (i, dead) => COMBOS.slice(STARTS[i], STARTS[i] + SIZES[i]).filter((combo) => !isDead(combo, dead)).length;

  // The text that range_reader_core.ranges gives for these probabilities: relative to the largest, three decimals.
  function rangeText(row, dead, isByClass) {
    const weights = isByClass ? classSums(row).map((sum, i) => sum / Math.max(numLive(i, dead), 1)) : row;
    const largest = weights.reduce((a, b) => Math.max(a, b), 0);
    const units = Array.from(weights, (weight) => Math.floor((weight / largest) * 1000 + 0.5));
    const entries = [];
    const add = (name, unit) => {
      if (unit > 0) entries.push(unit === 1000 ? name : `${name}:${(unit / 1000).toFixed(3).replace(/0+$/, "")}`);
    };
    DATA.classes.forEach((name, i) => {
      if (isByClass) return add(name, units[i]);
      const own = units.slice(STARTS[i], STARTS[i] + SIZES[i]);
      if (own.every((unit) => unit === own[0])) return add(name, own[0]);
      for (let k = own.length - 1; k >= 0; k--) add(COMBOS[STARTS[i] + k], own[k]);
    });
    return entries.join(",");
  }

  function percent(p) {
    if (!(p > 0)) return "0%";
    if (p < 0.00005) return "<0.01%";
    return `${(100 * p).toFixed(p >= 0.0995 ? 0 : p >= 0.00995 ? 1 : 2)}%`;
  }
  // Without the percent sign, short enough for a cell.
  const cellPercent = (p) => (p >= 0.0995 ? (100 * p).toFixed(0) : p >= 0.0005 ? (100 * p).toFixed(1).replace(/^0/, "") : "");
  const rankText = (rank) => (Number.isInteger(rank) ? rank.toLocaleString("en") : rank.toFixed(1));

  return { DATA, COMBOS, SIZES, STARTS, unpack, rowOf, classSums, deadCards, isDead, numLive, rangeText, percent, cellPercent, rankText };
})();
