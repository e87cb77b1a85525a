// Small charts on one time axis with one cursor. A gap in the data is a gap in the line.

import { clock } from './format.js';
import { el, setText, svg, rows } from './dom.js';

const height = 160;
const margin = { left: 46, right: 10, top: 16, bottom: 20 };

// Chart draws points [{at: ms, …}] as lines. spec is
//   {title, unit, format, seconds, lines: [{key, label, cls, step, area}], limits(points) → [{value, label}], caption(point) → text}.
export class Chart {
  constructor(spec, onCursor) {
    this.spec = spec;
    this.title = el('h3', {}, spec.title, ' ', el('span', { class: 'age' }, spec.unit));
    this.plot = svg('svg', { class: 'plot', role: 'img' });
    this.caption = el('p', { class: 'caption' });
    this.table = el('tbody');
    this.details = el('details', {}, el('summary', {}, 'Show table'), el('table', {},
      el('thead', {}, el('tr', {}, el('th', { scope: 'col' }, 'Time'), ...spec.lines.map((l) => el('th', { scope: 'col', class: 'n' }, l.label)))),
      this.table));
    const legend = el('ul', { class: 'legend' }, ...spec.lines.map((l) => el('li', {},
      svg('svg', { 'aria-hidden': 'true', viewBox: '0 0 18 8' }, svg('path', { class: `line ${l.cls}`, d: 'M0 4H18' })), l.label)));
    this.node = el('section', { class: 'panel' }, this.title, legend, this.plot, this.caption, this.details);
    this.plot.addEventListener('pointermove', (e) => onCursor(this.timeAt(e)));
    this.plot.addEventListener('pointerleave', () => onCursor(null));
  }

  timeAt(e) {
    if (!this.x) return null;
    const box = this.plot.getBoundingClientRect();
    return this.x.invert(e.clientX - box.left);
  }

  // draw shows the points within [from, to] (ms), the scale events, and a cursor at a time or none.
  draw(points, from, to, events, cursor) {
    const { spec } = this;
    const width = Math.max(200, this.plot.clientWidth || 480);
    const x = scale(from, to, margin.left, width - margin.right);
    this.x = x;
    const limits = (spec.limits?.(points) ?? []).filter((l) => Number.isFinite(l.value));
    let top = 0;
    for (const p of points) for (const l of spec.lines) top = Math.max(top, p[l.key] ?? 0);
    // A limit far above everything would flatten the lines; it is then left out of the scale.
    for (const l of limits) if (top === 0 || l.value <= top * 6) top = Math.max(top, l.value);
    const step = niceStep(top || 1, spec.seconds);
    const most = Math.max(step, Math.ceil((top * 1.02) / step) * step);
    const y = scale(0, most, height - margin.bottom, margin.top);

    const parts = [];
    for (let v = 0; v <= most + step / 2; v += step) {
      parts.push(svg('line', { class: 'grid', x1: margin.left, x2: width - margin.right, y1: y(v), y2: y(v) }));
      parts.push(svg('text', { x: margin.left - 6, y: y(v) + 4, 'text-anchor': 'end' }, spec.format(v)));
    }
    const span = to - from;
    const every = [5, 10, 15, 30, 60, 120, 300].map((s) => s * 1000).find((s) => span / s <= Math.max(2, width / 95)) ?? 300000;
    for (let t = Math.ceil(from / every) * every; t <= to; t += every) {
      parts.push(svg('text', { x: x(t), y: height - 4, 'text-anchor': x(t) > width - 40 ? 'end' : 'middle' }, clock(t)));
    }
    for (const l of spec.lines) {
      const d = path(points, l, x, y);
      if (l.area) for (const run of d.runs) parts.push(svg('path', { class: 'area', d: `${run.d}V${y(0)}H${run.x0}Z` }));
      parts.push(svg('path', { class: `line ${l.cls}`, d: d.runs.map((r) => r.d).join('') }));
    }
    for (const l of limits) {
      if (l.value > most) continue;
      parts.push(svg('line', { class: 'limit', x1: margin.left, x2: width - margin.right, y1: y(l.value), y2: y(l.value) }));
      parts.push(svg('text', { class: 'limit-name', x: margin.left + 4, y: y(l.value) - 4 }, l.label));
    }
    for (const e of events) {
      const cx = x(e.at);
      const d = e.up ? `M${cx - 4} 10L${cx + 4} 10L${cx} 3Z` : `M${cx - 4} 3L${cx + 4} 3L${cx} 10Z`;
      parts.push(svg('path', { class: e.up ? 'up' : 'down', d }, svg('title', {}, `${clock(e.at)}: ${e.from} ▸ ${e.to}`)));
    }
    const shown = cursor ? nearest(points, cursor) : points.at(-1);
    if (cursor && shown) {
      parts.push(svg('line', { class: 'cursor', x1: x(shown.at), x2: x(shown.at), y1: margin.top, y2: height - margin.bottom }));
    }
    this.plot.setAttribute('viewBox', `0 0 ${width} ${height}`);
    this.plot.replaceChildren(...parts);
    const text = shown ? spec.caption(shown) : 'nothing recorded yet';
    setText(this.caption, cursor && shown ? `${clock(shown.at)}: ${text}` : text);
    this.plot.setAttribute('aria-label', `${spec.title}. ${text}`);
    if (this.details.open) {
      const few = thin(points, 20).reverse();
      rows(this.table, few, (p) => [clock(p.at), ...spec.lines.map((l) => ({ text: spec.format(p[l.key]), cls: 'n' }))]);
    }
  }
}

// path returns the line as runs without gaps: where a value is unknown, or nothing was measured for a while.
function path(points, line, x, y) {
  const runs = [];
  let run = null, before = null;
  for (const p of points) {
    const v = p[line.key];
    if (!Number.isFinite(v) || (before && p.at - before.at > 10000)) run = null;
    if (Number.isFinite(v)) {
      const px = x(p.at).toFixed(1), py = y(v).toFixed(1);
      if (!run) runs.push(run = { d: `M${px} ${py}`, x0: px });
      else run.d += line.step ? `H${px}V${py}` : `L${px} ${py}`;
    }
    before = p;
  }
  return { runs };
}

// sparkline draws values against a limit in a 96 by 20 box.
export function sparkline(node, points, key, limit) {
  if (points.length < 2) return node.replaceChildren();
  const top = Math.max(...points.map((p) => p[key] ?? 0), Number.isFinite(limit) ? limit * 1.15 : 0, 1e-9);
  const x = scale(points[0].at, points.at(-1).at, 1, 95), y = scale(0, top, 19, 1);
  const parts = [svg('path', { d: path(points, { key }, x, y).runs.map((r) => r.d).join('') })];
  if (Number.isFinite(limit)) parts.unshift(svg('line', { x1: 0, x2: 96, y1: y(limit), y2: y(limit) }));
  node.replaceChildren(...parts);
}

export function nearest(points, at) {
  let best = null;
  for (const p of points) if (!best || Math.abs(p.at - at) < Math.abs(best.at - at)) best = p;
  return best;
}

function thin(points, n) {
  const every = Math.max(1, Math.ceil(points.length / n));
  return points.filter((_, i) => (points.length - 1 - i) % every === 0);
}

function scale(d0, d1, r0, r1) {
  const k = (r1 - r0) / (d1 - d0 || 1);
  const f = (v) => r0 + (v - d0) * k;
  f.invert = (r) => d0 + (r - r0) / k;
  return f;
}

// niceStep is a round distance of grid lines, about three of them up to top.
function niceStep(top, seconds) {
  const want = top / 3;
  if (seconds && top > 6) {
    const steps = [2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];
    return steps.find((s) => s >= want) ?? Math.ceil(want / 86400) * 86400;
  }
  const unit = 10 ** Math.floor(Math.log10(want));
  return [1, 2, 5, 10].map((m) => m * unit).find((s) => s >= want);
}
