// A canvas of cells with labels, axes, and marks laid over the still picture.
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
let theme = {};
function readTheme() {
  theme = { hues: Array.from({ length: 8 }, (_, i) => style("--hue" + i)), ink: style("--ink"), faint: style("--faint"), line: style("--line"), mark: style("--mark"), on: style("--on-hue"), empty: style("--empty"), veil: style("--veil") };
}

class View {
  constructor(canvas, geometry, cellAt) {
    Object.assign(this, geometry, { canvas, cellAt, labels: [] });
    const ratio = window.devicePixelRatio || 1;
    this.xs = [this.left];
    for (let c = 0; c < this.cols; c++) this.xs.push(this.xs[c] + (this.widths ? this.widths(c) : this.w));
    this.width = this.xs[this.cols] + 2;
    this.height = this.top + this.rows * this.h + 2;
    canvas.style.width = this.width + "px";
    canvas.style.height = this.height + "px";
    this.still = document.createElement("canvas");
    for (const c of [canvas, this.still]) { c.width = this.width * ratio; c.height = this.height * ratio; }
    this.pen = this.still.getContext("2d");
    this.pen.scale(ratio, ratio);
    this.over = canvas.getContext("2d");
    this.ratio = ratio;
    canvas.onmousemove = (e) => { const hit = this.hit(e); if (hit) choose(hit, false); };
    canvas.onmouseleave = () => restore();
    canvas.onclick = (e) => { const hit = this.hit(e); if (hit) choose(hit, true); };
  }
  hit(e) {
    const box = this.canvas.getBoundingClientRect(), x = e.clientX - box.left, y = e.clientY - box.top - this.top;
    if (x < this.left || y < 0 || x >= this.xs[this.cols] || y >= this.rows * this.h) return null;
    const column = this.xs.findIndex((edge) => edge > x) - 1;
    return this.cellAt(F.div(y, this.h), column + (x - this.xs[column]) / (this.xs[column + 1] - this.xs[column]));
  }
  x(column) {
    const c = Math.min(Math.floor(column), this.cols - 1);
    return this.xs[c] + (column - c) * (this.xs[c + 1] - this.xs[c]);
  }
  box(row, column, width = 1, height = 1) { return [this.x(column), this.top + row * this.h, this.x(column + width) - this.x(column), height * this.h]; }
  fill(row, column, color, width = 1, strength = 1) {
    const [x, y, w, h] = this.box(row, column, width), gap = Math.min(w, h) >= 7 ? 0.5 : 0;
    this.pen.fillStyle = color;
    this.pen.globalAlpha = strength;
    this.pen.fillRect(x + gap, y + gap, w - 2 * gap, h - 2 * gap);
    this.pen.globalAlpha = 1;
  }
  label(row, column, text) { this.labels.push([row, column, text]); }
  // All labels in one size: the largest in which every one of them fits, or none at all.
  write() {
    const pen = this.pen, font = (px) => `${px}px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace`;
    const longest = this.labels.reduce((most, [, , text]) => Math.max(most, text.length), 0);
    const size = [10, 9, 8].find((px) => { pen.font = font(px); return pen.measureText("0".repeat(longest)).width <= this.w - 1; });
    if (this.h < 10 || !size) return;
    pen.font = font(size);
    pen.fillStyle = theme.on;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    for (const [row, column, text] of this.labels) {
      const [x, y, w, h] = this.box(row, column);
      pen.fillText(text, x + w / 2, y + h / 2 + 0.5);
    }
  }
  axes(rowName, columnName, columnStep) {
    const pen = this.pen, step = Math.max(1, Math.ceil(12 / this.h)), nice = [1, 2, 4, 8, 16, 32, 64].find((n) => n >= step) || 64;
    pen.font = '9.5px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace';
    pen.fillStyle = theme.faint;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (let r = 0; r < this.rows; r += nice) pen.fillText(rowName(r), this.left - 5, this.top + (r + Math.min(1, 12 / this.h) / 2) * this.h);
    pen.textAlign = "left";
    pen.textBaseline = "bottom";
    const cs = columnStep || [1, 2, 4, 8, 16, 32, 64, 128].find((n) => n * this.w >= 26) || 128;
    for (let c = 0; c < this.cols; c += cs) pen.fillText(columnName(c), this.xs[c] + 1, this.top - 3);
  }
  show(marks) {
    const o = this.over;
    o.setTransform(1, 0, 0, 1, 0, 0);
    o.clearRect(0, 0, this.canvas.width, this.canvas.height);
    o.drawImage(this.still, 0, 0);
    o.scale(this.ratio, this.ratio);
    for (const kind of ["related", "exact"])
      for (const m of marks.filter((x) => x.kind === kind)) {
        const [x, y, w, h] = this.box(m.row, m.column, m.width, m.height);
        o.strokeStyle = theme.mark;
        if (kind === "related") { o.fillStyle = theme.veil; o.fillRect(x, y, w, h); continue; }
        const grow = Math.max(0, (7 - Math.min(w, h)) / 2);
        o.lineWidth = 2;
        o.fillStyle = theme.veil;
        if (Math.min(w, h) < 10) o.fillRect(x - grow, y - grow, w + 2 * grow, h + 2 * grow);
        o.strokeRect(x - grow, y - grow, w + 2 * grow, h + 2 * grow);
      }
  }
  reveal(mark) {
    const holder = this.canvas.parentElement, [x, y, w, h] = this.box(mark.row, mark.column, mark.width, mark.height);
    if (y < holder.scrollTop + this.top || y + h > holder.scrollTop + holder.clientHeight) holder.scrollTop = y - holder.clientHeight / 2;
    if (x < holder.scrollLeft || x + w > holder.scrollLeft + holder.clientWidth) holder.scrollLeft = x - holder.clientWidth / 2;
  }
}
