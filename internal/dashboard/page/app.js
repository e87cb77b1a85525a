// The live page: reads the API once a second and shows it. It changes nothing.

import { get, hasToken, setToken, serverNow, Unauthorized } from './api.js';
import { Chart, sparkline } from './charts.js';
import { $, cell, el, rows, setAttr, setText, show, svg, terms } from './dom.js';
import { clock, count, drain, num, rate, share, span, unknown, word } from './format.js';

const everyMs = 1000;
const staleAfter = 5; // seconds without news before everything is grey
const chartMs = 15 * 60 * 1000;
const seeds = 30; // pools whose past is read for the sparkline; others fill theirs while the page is open

const states = {
  unread: { rank: 0, symbol: '◌' }, stuck: { rank: 1, symbol: '■' }, at_risk: { rank: 2, symbol: '▲' },
  ok: { rank: 3, symbol: '●' }, idle: { rank: 4, symbol: '○' },
};
const stateText = (s) => `${states[s]?.symbol ?? '?'} ${word(s)}`;

const model = {
  pools: [], status: null, downstreams: [], workers: [], decisions: [], explanation: null,
  readAt: 0, detailAt: 0, // browser times of the last read of the overview and of the selected pool; 0: never
  problem: '', detailProblem: '',
  selected: '',
  past: new Map(), // pool → recent points {at, oldest_age} for the sparkline
  series: [], seriesOf: '', // every point of the selected pool
  cursor: null,
};

// Reading

async function read() {
  const [pools, status, downstreams] = await Promise.all([get('pools'), get('status'), get('downstreams')]);
  model.pools = pools.items.sort((a, b) => trouble(a) - trouble(b) || a.name.localeCompare(b.name));
  model.status = status;
  model.downstreams = downstreams.items;
  await Promise.all(model.pools.map(remember));
  choose();
  model.readAt = performance.now();
  if (!model.selected) return;
  try {
    await readSelected();
    model.detailProblem = '';
  } catch (e) {
    if (e instanceof Unauthorized) throw e;
    model.detailProblem = e.message;
  }
}

async function readSelected() {
  const path = `pools/${encodeURIComponent(model.selected)}`;
  const since = model.seriesOf === model.selected ? model.series.at(-1)?.at : undefined;
  const query = since ? `?since=${new Date(since).toISOString()}` : '';
  const pool = model.selected;
  const [explanation, decisions, workers, series] = await Promise.all([
    get(`${path}/explanation`), get(`${path}/decisions?page_size=15`), get('workers'), get(`${path}/series${query}`),
  ]);
  if (pool === model.selected) {
    model.explanation = explanation;
    model.decisions = decisions.items;
    model.workers = workers.items.filter((w) => w.pool === pool);
    extend(pool, series.items);
    model.detailAt = performance.now();
  }
}

// remember keeps a pool's oldest age for its sparkline, beginning with what the server remembers.
async function remember(p, i) {
  let past = model.past.get(p.name);
  if (!past) {
    model.past.set(p.name, past = []);
    if (i < seeds) {
      const s = await get(`pools/${encodeURIComponent(p.name)}/series`);
      past.push(...s.items.map((q) => ({ at: Date.parse(q.at), oldest_age: q.oldest_age })));
    }
  }
  const at = Date.parse(p.at);
  if (!past.length || past.at(-1).at < at) past.push({ at, oldest_age: p.oldest_age });
  while (past.length > 300) past.shift();
}

function extend(pool, items) {
  if (model.seriesOf !== pool) {
    model.series = [];
    model.seriesOf = pool;
  }
  for (const q of items) {
    const at = Date.parse(q.at);
    if (!model.series.length || model.series.at(-1).at < at) model.series.push({ ...q, at });
  }
  const oldest = (model.series.at(-1)?.at ?? 0) - chartMs;
  while (model.series.length && model.series[0].at < oldest) model.series.shift();
}

const trouble = (p) => states[p.state]?.rank ?? 0;

function choose() {
  const wanted = decodeURIComponent(location.hash.replace(/^#pool\//, ''));
  const found = model.pools.find((p) => p.name === wanted) ?? model.pools.find((p) => p.name === model.selected) ?? model.pools[0];
  if (found?.name !== model.selected) {
    model.selected = found?.name ?? '';
    model.explanation = null;
    model.decisions = [];
    model.workers = [];
    model.detailAt = 0;
  }
}

// Showing

function age(at) {
  const t = typeof at === 'number' ? at : Date.parse(at);
  return Number.isFinite(t) ? Math.max(0, (serverNow() - t) / 1000) : NaN;
}
const ageText = (s) => (Number.isFinite(s) ? (s < 9.95 ? `${s.toFixed(1)} s` : span(s)) : unknown);

function draw() {
  const unreadFor = model.readAt ? (performance.now() - model.readAt) / 1000 : NaN;
  const cycle = model.status?.last_cycle_at ? age(model.status.last_cycle_at) : NaN;
  const stale = model.readAt > 0 && (unreadFor > staleAfter || cycle > staleAfter);
  document.documentElement.classList.toggle('stale', stale);
  $('main').hidden = model.readAt === 0;
  let banner = '';
  if (!model.readAt) banner = model.problem;
  else if (unreadFor > staleAfter) banner = `unread for ${span(unreadFor)}: ${model.problem || 'the server does not answer'}. What is shown is from then.`;
  else if (cycle > staleAfter) banner = `unread for ${span(cycle)}: the control loop has not run since. Sizes stay as they are.`;
  show($('banner'), banner);
  setText($('freshness'), stale ? `unread for ${span(Math.max(unreadFor, cycle || 0))}` : Number.isFinite(cycle) ? `snapshot ${ageText(cycle)} old` : 'no snapshot yet');
  if (model.status) {
    const s = model.status;
    setText($('process'), `${s.version || 'development build'} · up ${span(age(s.started_at))} · ${count(s.workers)} workers · a cycle takes ${span(s.cycle_seconds) === '0s' ? 'under 50 ms' : span(s.cycle_seconds)}`);
  }
  const worst = model.pools[0];
  document.title = stale ? '◌ unread · Headrace' : worst ? `${states[worst.state]?.symbol ?? ''} ${worst.name} · Headrace` : 'Headrace';
  drawPools();
  const pool = model.pools.find((p) => p.name === model.selected);
  $('pool').hidden = !pool;
  if (pool) drawPool(pool);
}

const late = (p) => p.objective !== null && p.oldest_age !== null && p.oldest_age > p.objective;
const objectiveText = (p) => (p.objective === null ? 'none' : span(p.objective));
const replicasText = (p) => (p.wanted > p.desired ? `${p.desired} ▸ ${p.wanted}` : `${p.desired}`);
function readiness(p) {
  const parts = [];
  if (p.ready !== p.desired) parts.push(`${p.ready} ready`);
  if (p.starting) parts.push(`${p.starting} starting`);
  if (p.draining) parts.push(`${p.draining} draining`);
  return parts.join(', ');
}

const poolRows = new Map();

function drawPools() {
  const body = $('pools');
  $('no-pools').hidden = model.pools.length > 0;
  for (const [name, tr] of poolRows) {
    if (!model.pools.some((p) => p.name === name)) {
      tr.remove();
      poolRows.delete(name);
    }
  }
  const focused = document.activeElement;
  model.pools.forEach((p, i) => {
    let tr = poolRows.get(p.name);
    if (!tr) {
      tr = el('tr', {}, el('th', { scope: 'row' }, el('a', { href: `#pool/${encodeURIComponent(p.name)}` }, p.name)),
        el('td'), el('td'), el('td'), el('td'), el('td'), el('td'), el('td'),
        el('td', { class: 'wide' }, svg('svg', { class: 'spark', viewBox: '0 0 96 20', 'aria-hidden': 'true' })), el('td'));
      tr.addEventListener('click', () => { location.hash = `#pool/${encodeURIComponent(p.name)}`; });
      poolRows.set(p.name, tr);
    }
    if (body.rows[i] !== tr) body.insertBefore(tr, body.rows[i] ?? null);
    setAttr(tr, 'data-selected', p.name === model.selected);
    setAttr(tr.querySelector('a'), 'aria-current', p.name === model.selected ? 'true' : null);
    const c = tr.cells;
    cell(c[1], { text: stateText(p.state), cls: `state ${p.state}` });
    cell(c[2], { text: `${span(p.oldest_age ?? NaN)} / ${objectiveText(p)}`, cls: late(p) ? 'n late' : 'n' });
    cell(c[3], { text: count(p.backlog ?? NaN), cls: 'n wide' });
    cell(c[4], { text: drain(p.drain), cls: 'wide nowrap' });
    cell(c[5], { text: `${rate(p.arrivals ?? NaN)} / ${rate(p.completions)}`, cls: 'n wide' });
    cell(c[6], { text: replicasText(p), cls: 'n' });
    cell(c[7], { text: p.held_by ? word(p.held_by) : unknown, cls: 'mid' });
    sparkline(c[8].firstChild, model.past.get(p.name) ?? [], 'oldest_age', p.objective ?? NaN);
    cell(c[9], { text: ageText(age(p.at)), cls: 'n wide' });
  });
  if (focused instanceof HTMLElement && body.contains(focused) && document.activeElement !== focused) focused.focus();
}

function drawPool(p) {
  setText($('pool-heading'), p.name);
  setText($('pool-state'), stateText(p.state));
  $('pool-state').className = `pill ${p.state}`;
  setText($('pool-note'), `${p.mode === 'observe' ? 'observe: decides and changes nothing' : 'act'} · read ${ageText(age(p.at))} ago${p.alarms?.length ? ` · look at: ${p.alarms.map(word).join(', ')}` : ''}`);
  show($('pool-trouble'), [p.unread && `unread: ${p.unread}`, p.trouble && `actuator: ${p.trouble}`, model.detailProblem && `not read: ${model.detailProblem}`].filter(Boolean).join(' · '));
  terms($('tiles'), [
    { name: 'Oldest job', text: span(p.oldest_age ?? NaN), sub: p.objective === null ? 'no objective' : `of ${span(p.objective)}`, cls: late(p) ? 'late' : '' },
    { name: 'Waiting', text: count(p.backlog ?? NaN), sub: `${count(p.in_flight ?? NaN)} in flight, ${count(p.delayed ?? NaN)} delayed` },
    { name: 'Drain', text: drain(p.drain) },
    { name: 'Replicas', text: String(p.desired), sub: [p.wanted > p.desired ? `of ${p.wanted} wanted` : '', readiness(p)].filter(Boolean).join(', ') },
    { name: 'Arrive / finish', text: `${rate(p.arrivals ?? NaN)} / ${rate(p.completions)}`, sub: 'per s' },
    { name: 'Slots busy', text: count(p.busy ?? NaN), sub: `of ${count(p.slots)}${p.service_time ? `, ${span(p.service_time)} a job` : ''}` },
  ], true);
  drawWhy(p);
  drawCharts(p);
  drawLists();
}

// The words are the server's: the command line prints the same ones.
function drawWhy(p) {
  const e = model.explanation?.explanation, d = model.explanation?.decision;
  setText($('why-heading'), e?.question ?? `Why ${p.desired}?`);
  setText($('verdict'), e?.verdict ?? p.sentence);
  setText($('verdict-more'), e?.lead.join(' ') ?? '');
  rows($('steps'), e?.rows ?? [], (r) => [
    { text: r.step, sub: r.binding ? '◀ binding' : '' }, r.limit, { text: String(r.result), cls: 'n' }, r.evidence,
  ], (r) => ({ 'data-binding': r.binding }));
  const outlook = [];
  if (d?.drain.without_ceiling) outlook.push({ name: 'Without the ceiling', text: `clears in about ${span(d.drain.without_ceiling)}` });
  if (d?.next_change_at) {
    const wait = (Date.parse(d.next_change_at) - serverNow()) / 1000;
    outlook.push({ name: 'Scale-in', text: wait > 0.5 ? `possible in ${span(wait)}` : 'possible now' });
  }
  for (const h of e?.helps ?? []) outlook.push({ name: 'Would help', text: h });
  if (e?.ruled_out.length) outlook.push({ name: 'Ruled out', text: e.ruled_out.join(' · ') });
  for (const a of e?.alarms ?? []) outlook.push({ name: 'Look at', text: a });
  terms($('outlook'), outlook, false);
}

// Charts

const ceilingName = () => {
  const b = model.explanation?.decision?.binding;
  return b ? `${b.name || word(b.reason)} ${b.replicas}` : '';
};
const rateCeilings = () => (model.explanation?.decision?.ceilings ?? []).filter((c) => c.jobs_per_second > 0);
const selectedPool = () => model.pools.find((p) => p.name === model.selected);

const charts = [
  {
    title: 'Oldest job', unit: 'age', format: (v) => span(v ?? NaN), seconds: true,
    lines: [{ key: 'oldest_age', label: 'oldest age', cls: 'blue' }],
    limits: () => { const w = selectedPool()?.objective; return w ? [{ value: w, label: `objective ${span(w)}` }] : []; },
    caption: (q) => {
      const w = selectedPool()?.objective;
      if (!Number.isFinite(q.oldest_age)) return 'unknown';
      return `${span(q.oldest_age)}${w ? `, ${q.oldest_age > w ? 'above' : 'within'} the objective of ${span(w)}` : ''}; ${count(q.backlog ?? NaN)} waiting`;
    },
  },
  {
    title: 'Arrivals and completions', unit: 'jobs/s', format: (v) => num(v ?? NaN),
    lines: [{ key: 'arrivals', label: 'arrivals', cls: 'blue' }, { key: 'completions', label: 'completions', cls: 'green' }],
    limits: () => rateCeilings().map((c) => ({ value: c.jobs_per_second, label: `${c.name} ${num(c.jobs_per_second)}/s` })),
    caption: (q) => `arrivals ${rate(q.arrivals)}, completions ${rate(q.completions)} a second`,
  },
  {
    title: 'Replicas', unit: '', format: (v) => num(v ?? NaN),
    lines: [
      { key: 'wanted', label: 'wanted by demand', cls: 'grey', step: true },
      { key: 'ready', label: 'ready', cls: 'green', step: true, area: true },
      { key: 'desired', label: 'desired', cls: 'blue', step: true },
    ],
    limits: (ps) => { const c = ps.at(-1)?.ceiling; return Number.isFinite(c) ? [{ value: c, label: ceilingName() }] : []; },
    caption: (q) => `${q.ready} ready, ${q.desired} desired, ${q.wanted} wanted by demand${Number.isFinite(q.ceiling) ? `; ceiling ${q.ceiling}` : ''} · ${word(q.reason)}`,
  },
  {
    title: 'Downstream use', unit: 'share of the limit', format: (v) => share(v ?? NaN),
    lines: [{ key: 'used', label: 'used over half a minute', cls: 'violet' }],
    limits: (ps) => (ps.some((q) => Number.isFinite(q.used)) ? [{ value: 1, label: 'limit' }] : []),
    caption: (q) => (Number.isFinite(q.used) ? `${share(q.used)} of the limit used` : 'no downstream, or not known'),
  },
].map((spec) => new Chart(spec, (at) => { model.cursor = at; drawCharts(selectedPool()); }));

function drawCharts(p) {
  if (!p || model.seriesOf !== p.name) return;
  const points = model.series;
  const to = Math.max(points.at(-1)?.at ?? 0, serverNow());
  const from = Math.min(points[0]?.at ?? to, to - 60000);
  const events = [];
  for (let i = 1; i < points.length; i++) {
    const a = points[i - 1].desired, b = points[i].desired;
    if (a !== b) events.push({ at: points[i].at, from: a, to: b, up: b > a });
  }
  for (const c of charts) c.draw(points, from, to, events, model.cursor);
}

function drawLists() {
  const uses = new Set((model.explanation?.decision?.steps ?? []).map((s) => s.subject));
  const all = model.downstreams.flatMap((d) => d.limits.map((l) => ({ d, l })));
  $('downstreams-panel').hidden = all.length === 0;
  rows($('downstreams'), all, ({ d, l }) => [
    d.name, { text: `${num(l.per_minute)} ${l.unit}/min`, cls: 'n' }, { text: share(l.used), cls: 'n' },
    { text: share(l.throttled_share), cls: 'n', sub: `${count(d.throttled)} calls` },
    { text: l.units_per_use ? num(l.units_per_use) : unknown, cls: 'n' },
    d.paused_for > 0 ? { text: `paused for ${span(d.paused_for)}`, cls: 'late' } : 'open',
  ], ({ d }) => ({ 'data-binding': uses.has(d.name) }));
  rows($('decisions'), model.decisions, (d) => [
    { text: clock(d.at), cls: 'nowrap' },
    { text: d.from === d.desired ? String(d.desired) : `${d.from} ▸ ${d.desired}`, cls: 'n' }, { text: String(d.wanted), cls: 'n' },
    { text: word(d.reason), cls: 'nowrap' }, { text: d.sentence, sub: d.error ? `not done: ${d.error}` : '' },
  ]);
  rows($('workers'), model.workers, (w) => [
    w.name, w.order === 'run' ? 'run' : { text: w.order, cls: 'at_risk' }, { text: `${w.busy} / ${w.slots}`, cls: 'n' },
    { text: `${ageText(age(w.first_seen_at))} ago`, cls: 'n' }, { text: `${ageText(age(w.last_seen_at ?? w.seen_at))} ago`, cls: 'n' },
  ]);
  const since = model.detailAt ? `read ${ageText((performance.now() - model.detailAt) / 1000)} ago` : '';
  for (const id of ['downstreams-age', 'decisions-age', 'workers-age']) setText($(id), since);
}

// Running: one read at a time, none while nobody looks.

let reading = false, timer = 0;

async function tick() {
  clearTimeout(timer);
  if (document.hidden || reading) return;
  reading = true;
  try {
    await read();
    model.problem = '';
    $('login').hidden = true;
  } catch (e) {
    if (e instanceof Unauthorized) return ask();
    model.problem = e.message;
  } finally {
    reading = false;
    draw();
  }
  timer = setTimeout(tick, everyMs);
}

function ask() {
  $('login').hidden = false;
  show($('login-problem'), hasToken() ? 'The server did not accept this token.' : '');
  model.problem = 'the server asks for a token';
  $('token').focus();
}

$('login').addEventListener('submit', (e) => {
  e.preventDefault();
  setToken($('token').value.trim());
  $('token').value = '';
  tick();
});
document.addEventListener('visibilitychange', tick);
addEventListener('hashchange', () => { choose(); draw(); tick(); });
addEventListener('resize', draw);
setInterval(() => { if (!document.hidden) draw(); }, 1000); // ages go on when nothing comes any more
$('charts').append(...charts.map((c) => c.node));
tick();
