"use strict";
const get = (id) => document.getElementById(id);
const add = (parent, tag, text, cls) => {
  const made = parent.appendChild(document.createElement(tag));
  if (text !== undefined) made.textContent = text;
  if (cls) made.className = cls;
  return made;
};
const short = (n) => n < 1 && n > 0 ? (100 * n).toFixed(1) + " %" : n < 1e5 ? String(Math.round(n)) : n.toExponential(2);

// ------------------------------------------------------------------------------------------------------------- launches
const NOTHING = { kernel: "no launch", target: "no target", words: [], findings: [], cycles: 0, clock: 1, roofline: [], columns: [],
  arrays: [], ptx: [], source: [], tracks: [], kinds: [], spans: [],
  memory: { rows: [], units: [], sizes: [], kinds: [], held: [] } };
const chosen = Number(location.hash.slice(1)) || 0;
const DATA = LAUNCHES[chosen] || LAUNCHES[0] || NOTHING;
LAUNCHES.forEach((launch, at) => {
  add(get("launches"), "option", `${at + 1}: ${launch.kernel}, ${launch.cycles.toLocaleString("en")} cycles`).selected = launch === DATA;
});
get("launches").hidden = LAUNCHES.length < 2;
get("launches").addEventListener("change", (event) => { location.hash = event.target.selectedIndex; location.reload(); });

// ---------------------------------------------------------------------------------------------------------------- words
get("kernel").textContent = `${DATA.kernel} for ${DATA.target}`;
for (const line of DATA.words) add(get("words"), "li", line);
for (const line of DATA.findings.length ? DATA.findings : ["none"]) add(get("findings"), "li", line);
DATA.arrays.forEach((cells, at) => {
  const row = add(get("arrays"), "tr");
  cells.forEach((cell, column) => add(row, at ? "td" : "th", cell, at && column ? "number" : ""));
});
get("memory").hidden = !DATA.arrays.length;
const most = Math.max(DATA.cycles, 1, ...DATA.roofline.map(([, cycles]) => cycles));
for (const [name, cycles] of [...DATA.roofline, ["estimate", DATA.cycles]]) {
  const row = add(get("bars"), "div", undefined, "bar");
  add(row, "span", name);
  add(add(row, "span"), "i").style.width = `${100 * cycles / most}%`;
  add(row, "b", `${Math.round(cycles).toLocaleString("en")}`);
}

// ---------------------------------------------------------------------------------------------------------------- lines
const rows = new Map();
for (const name of DATA.columns) add(get("heat"), "option", name);
function fill(table, lines, key) {
  const column = DATA.columns.indexOf(get("heat").value);
  const top = lines.reduce((most, line) => Math.max(most, line.counts[column] || 0), 1e-9);
  table.replaceChildren();
  for (const line of lines) {
    const row = add(table, "tr");
    const value = line.counts[column] || 0;
    add(row, "td", line.line, "number");
    add(row, "td", value ? short(value) : "", "number").style.background = value ? `rgba(var(--heat), ${0.08 + 0.6 * value / top})` : "";
    add(row, "td", line.text);
    row.addEventListener("click", () => select(key, line));
    rows.set(`${key} ${line.name}`, row);
  }
}
function draw_lines() {
  rows.clear();
  fill(get("source"), DATA.source, "source");
  fill(get("ptx"), DATA.ptx, "ptx");
  search();
}
function select(key, line) {
  for (const row of document.querySelectorAll("tr.selected")) row.classList.remove("selected");
  const names = key === "ptx" ? [["ptx", line.name], ["source", line.of]]
    : [["source", line.name], ...DATA.ptx.filter((other) => other.of === line.name).map((other) => ["ptx", other.name])];
  for (const [side, name] of names) {
    const row = rows.get(`${side} ${name}`);
    if (row) row.classList.add("selected");
  }
  for (const side of ["ptx", "source"]) {
    const first = document.querySelector(`#${side} tr.selected`);
    if (first) first.scrollIntoView({ block: "nearest" });
  }
}
function search() {
  const text = get("search").value.toLowerCase();
  let count = 0, first = null;
  for (const row of rows.values()) {
    const found = text !== "" && row.textContent.toLowerCase().includes(text);
    row.classList.toggle("found", found);
    count += found;
    first = first || (found ? row : null);
  }
  get("matches").textContent = text === "" ? "" : `${count} lines`;
  if (first) first.scrollIntoView({ block: "nearest" });
}
get("heat").addEventListener("change", draw_lines);
get("search").addEventListener("input", search);

// ------------------------------------------------------------------------------------------------------------- timeline
const canvas = get("timeline"), pen = canvas.getContext("2d");
const end = DATA.spans.reduce((last, span) => Math.max(last, span[4]), 1);
const colours = ["#4c8bc9", "#d0803c", "#9b5fb5", "#c9504c", "#5a9e57", "#7c8894", "#b8a13a", "#3fa3a0"];
function legend(parent, kinds) {
  kinds.forEach((kind, at) => { add(parent, "span", kind, "kind").style.borderColor = colours[at % colours.length]; });
}
legend(get("legend"), DATA.kinds);
const by_track = DATA.tracks.map(() => []);
for (const span of DATA.spans) by_track[span[0]].push(span);
for (const spans of by_track) spans.sort((a, b) => a[3] - b[3]);
const view = { from: 0, to: end };
const LABEL = 130, ROW = 18, PLACE = 110;
canvas.style.height = `${Math.max(80, ROW * DATA.tracks.length + 24)}px`;
function prepare(canvas, pen) {
  const scale = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  canvas.width = width * scale;
  canvas.height = height * scale;
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.font = "11px system-ui, sans-serif";
  const style = getComputedStyle(document.documentElement);
  return { width, height, colour: (name) => style.getPropertyValue(name), x: (time) => LABEL + (width - LABEL) * (time - view.from) / (view.to - view.from) };
}
function axis(pen, { width, height, colour, x }) {
  pen.fillStyle = colour("--dim");
  for (let i = 0; i <= 4; i++) {
    const time = view.from + (view.to - view.from) * i / 4;
    pen.textAlign = i === 4 ? "right" : "left";
    pen.fillText(`${(time / DATA.clock).toFixed(0)} ns`, Math.min(x(time) + 2, width - 2), height - 6);
  }
  pen.textAlign = "left";
}
function draw() {
  const frame = prepare(canvas, pen), { width, colour, x } = frame;
  by_track.forEach((spans, track) => {
    const y = ROW * track;
    pen.fillStyle = colour("--text");
    pen.fillText(DATA.tracks[track], 6, y + 13);
    let at = first_after(spans, view.from), last = -1;
    for (; at < spans.length && spans[at][3] <= view.to; at++) {
      const [, kind, , begin, stop] = spans[at];
      const left = Math.max(x(begin), LABEL), right = Math.min(Math.max(x(stop), left + 0.5), width);
      if (right <= last + 0.5) continue; // smaller than a point, and drawn over
      pen.fillStyle = colours[kind % colours.length];
      pen.fillRect(left, y + 3, right - left, ROW - 5);
      last = right;
      if (x(stop) - x(begin) < 0.5) at = first_after(spans, time_of(last, width), at + 1) - 1; // past what is drawn over
    }
  });
  axis(pen, frame);
  get("window").textContent = `${Math.round(view.from)} to ${Math.round(view.to)} cycles`;
  draw_places();
}
function first_after(spans, time, low = 0) {
  let high = spans.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (spans[middle][4] < time) low = middle + 1; else high = middle;
  }
  return low;
}
function time_of(place, width) {
  return view.from + (view.to - view.from) * (place - LABEL) / (width - LABEL);
}
function time_under(canvas, event) {
  const box = canvas.getBoundingClientRect();
  return time_of(event.clientX - box.left, box.width);
}
function under(event) {
  const time = time_under(canvas, event);
  const spans = by_track[Math.floor((event.clientY - canvas.getBoundingClientRect().top) / ROW)] || [];
  const found = spans[first_after(spans, time)];
  return found && found[3] <= time ? found : null;
}

// --------------------------------------------------------------------------------------------------------------- memory
const MEMORY = DATA.memory, places = get("places"), brush = places.getContext("2d");
const by_place = MEMORY.rows.map(() => []);
for (const span of MEMORY.held) by_place[span[0]].push(span);
get("held").hidden = !MEMORY.rows.length;
legend(get("held-legend"), MEMORY.kinds);
places.style.height = `${PLACE * MEMORY.rows.length + 24}px`;
function draw_places() {
  if (!MEMORY.rows.length) return;
  const frame = prepare(places, brush), { width, colour, x } = frame;
  by_place.forEach((spans, row) => {
    const top = PLACE * row + 4, high = PLACE - 12, size = MEMORY.sizes[row];
    brush.fillStyle = colour("--text");
    brush.fillText(MEMORY.rows[row], 6, top + 13);
    brush.fillStyle = colour("--dim");
    brush.fillText(`${size.toLocaleString("en")} ${MEMORY.units[row]}`, 6, top + 28);
    brush.strokeStyle = colour("--line");
    brush.strokeRect(LABEL + 0.5, top + 0.5, width - LABEL - 1, high - 1);
    for (const [, first, stop, kind, , begin, written, until] of spans) {
      if (until < view.from || begin > view.to) continue;
      const y = top + high * first / size, tall = Math.max(high * (stop - first) / size, 1);
      brush.fillStyle = colours[kind % colours.length];
      for (const [from, to, alpha] of [[begin, Math.min(written, until), 0.35], [written, until, 0.85]]) {
        const left = Math.max(x(from), LABEL), right = Math.min(Math.max(x(to), left + 0.5), width);
        brush.globalAlpha = alpha;
        if (to > from && right > left) brush.fillRect(left, y, right - left, Math.max(tall - 0.5, 0.5));
      }
      brush.globalAlpha = 1;
    }
  });
  axis(brush, frame);
}
function held_under(event) {
  const time = time_under(places, event), y = event.clientY - places.getBoundingClientRect().top;
  const row = Math.floor(y / PLACE), at = (y - PLACE * row - 4) / (PLACE - 12) * MEMORY.sizes[row];
  const found = (by_place[row] || []).filter(([, first, stop, , , begin, , until]) => first <= at && at < stop && begin <= time && time <= until);
  return found[found.length - 1] || null;
}

// ----------------------------------------------------------------------------------------------------------------- mouse
let held = null;
function listen(canvas, line_under, say) {
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const time = time_under(canvas, event), factor = event.deltaY > 0 ? 1.25 : 0.8;
    view.from = Math.max(0, time - (time - view.from) * factor);
    view.to = Math.min(end, Math.max(time + (view.to - time) * factor, view.from + 1));
    draw();
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => { held = { canvas, x: event.clientX, from: view.from, to: view.to, moved: false }; });
  window.addEventListener("pointerup", (event) => {
    if (held && held.canvas === canvas && !held.moved && event.target === canvas) {
      const number = line_under(event), line = number && DATA.ptx.find((each) => each.line === number);
      if (line) select("ptx", line);
    }
    if (held && held.canvas === canvas) held = null;
  });
  canvas.addEventListener("pointermove", (event) => {
    if (held && held.canvas === canvas && Math.abs(event.clientX - held.x) > 2) {
      const by = (held.to - held.from) * (held.x - event.clientX) / (canvas.clientWidth - LABEL);
      const shift = Math.min(Math.max(by, -held.from), end - held.to);
      Object.assign(view, { from: held.from + shift, to: held.to + shift });
      held.moved = true;
      draw();
      return;
    }
    say(event);
  });
}
listen(canvas, (event) => (under(event) || [])[2], (event) => {
  const span = under(event);
  get("hover").textContent = span ? `${DATA.tracks[span[0]]}: ${DATA.kinds[span[1]]}, line ${span[2]}, ${Math.round(span[4] - span[3])} cycles` : "";
});
listen(places, (event) => (held_under(event) || [])[4], (event) => {
  const span = held_under(event);
  get("held-hover").textContent = span ? `${MEMORY.rows[span[0]]}: ${MEMORY.units[span[0]]} ${span[1]} to ${span[2] - 1}, ${MEMORY.kinds[span[3]]}, ` +
    `line ${span[4]}, written from ${Math.round(span[5])} to ${Math.round(span[6])}, held until ${Math.round(span[7])} cycles` : "";
});
get("whole").addEventListener("click", () => { Object.assign(view, { from: 0, to: end }); draw(); });
get("theme").addEventListener("click", () => { document.documentElement.classList.toggle("dark"); draw(); });
if (matchMedia("(prefers-color-scheme: dark)").matches) document.documentElement.classList.add("dark");
window.addEventListener("resize", draw);
document.querySelector(".sides").classList.toggle("alone", !DATA.source.length);
draw_lines();
draw();
