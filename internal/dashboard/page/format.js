// How numbers are written. Unknown is a dash, never a zero.

export const unknown = '–';

const known = (x) => typeof x === 'number' && Number.isFinite(x);

// digits writes about three significant digits without trailing zeros.
function digits(x) {
  const abs = Math.abs(x);
  const places = abs < 0.0995 ? 3 : abs < 9.995 ? 2 : abs < 99.95 ? 1 : 0;
  return String(Number(x.toFixed(places)));
}

// num writes a quantity: 0.49, 16.4, 412, 90k, 1.25M.
export function num(x) {
  if (!known(x)) return unknown;
  const abs = Math.abs(x);
  if (abs < 9995) return digits(x);
  if (abs < 999.5e3) return digits(x / 1e3) + 'k';
  if (abs < 999.5e6) return digits(x / 1e6) + 'M';
  return digits(x / 1e9) + 'G';
}

// count writes a number of things, exactly while that is short: 412, 16 400, 2.1M.
export function count(x) {
  if (!known(x)) return unknown;
  if (x >= 1e6) return num(x);
  return String(Math.round(x)).replace(/(\d)(?=(\d{3})+$)/g, '$1\u202f');
}

// rate writes jobs per second with a fixed number of places, so that columns stay still.
export function rate(x) {
  if (!known(x)) return unknown;
  return x >= 100 ? count(x) : x.toFixed(1);
}

// span writes seconds as people say them: 0.4s, 25s, 11m42s, 1h04m, 3d2h.
export function span(s) {
  if (!known(s)) return unknown;
  if (s < 0.05) return '0s';
  if (s < 9.95) return s.toFixed(1).replace(/\.0$/, '') + 's';
  const n = Math.round(s);
  const two = (v) => String(v).padStart(2, '0');
  if (n < 60) return n + 's';
  if (n < 3600) return n % 60 ? `${Math.floor(n / 60)}m${two(n % 60)}s` : `${n / 60}m`;
  if (n < 86400) return n % 3600 < 60 ? `${Math.floor(n / 3600)}h` : `${Math.floor(n / 3600)}h${two(Math.floor(n % 3600 / 60))}m`;
  return `${Math.floor(n / 86400)}d${Math.floor(n % 86400 / 3600)}h`;
}

// about writes an estimate with its range in one unit: 38 min (25–61).
export function about(seconds, low, high) {
  const [size, unit] = seconds < 120 ? [1, 's'] : seconds < 7200 ? [60, 'min'] : seconds < 172800 ? [3600, 'h'] : [86400, 'd'];
  const part = (s) => (s / size < 9.95 ? digits(Math.round(s / size * 10) / 10) : String(Math.round(s / size)));
  let range = '';
  if (known(low) && known(high) && high > low) range = ` (${part(low)}–${part(high)})`;
  else if (known(low) && !known(high)) range = ` (at least ${part(low)})`;
  return `${part(seconds)} ${unit}${range}`;
}

// drain is the outlook for a backlog, its sign before its size.
export function drain(d) {
  switch (d && d.state) {
    case 'empty': return 'empty';
    case 'clears': return about(d.seconds, d.low, d.high);
    case 'stalled': return 'stalled';
    case 'grows': return `grows ${num(Math.abs(d.net))}/s`;
    default: return unknown;
  }
}

export function share(x) {
  if (!known(x)) return unknown;
  return (x > 0 && x < 0.0995 ? digits(x * 100) : Math.round(x * 100)) + '%';
}

// word writes an identifier of the API for people: pool_max → pool max.
export const word = (s) => String(s ?? '').replaceAll('_', ' ');

// clock writes an instant as local time; the date too when it is not today.
export function clock(at) {
  const d = new Date(at);
  if (Number.isNaN(d.getTime())) return unknown;
  const time = d.toLocaleTimeString([], { hour12: false });
  return d.toDateString() === new Date().toDateString() ? time : `${d.toLocaleDateString()} ${time}`;
}
