// Reading the API. Addresses are relative, so that the page also works below a sub-path.

const tokenKey = 'headrace-token';
const patience = 8000; // ms for one answer

export class Unauthorized extends Error {}

export const hasToken = () => Boolean(sessionStorage.getItem(tokenKey));
export const setToken = (t) => sessionStorage.setItem(tokenKey, t);

// offsets are samples of server clock minus browser clock in ms. The Date header is cut to whole seconds and the answer
// took time to come, so each sample is too small by at most about a second: the largest recent one is nearest.
const offsets = [];

export function serverNow() {
  return Date.now() + (offsets.length ? Math.max(...offsets) : 0);
}

export async function get(path) {
  const headers = {};
  const token = sessionStorage.getItem(tokenKey);
  if (token) headers.Authorization = `Bearer ${token}`;
  let answer;
  try {
    answer = await fetch(`api/v1/${path}`, { headers, cache: 'no-store', signal: AbortSignal.timeout(patience) });
  } catch {
    throw new Error('the server cannot be reached');
  }
  const date = Date.parse(answer.headers.get('Date') ?? '');
  if (Number.isFinite(date)) {
    offsets.push(date - Date.now());
    if (offsets.length > 60) offsets.shift();
  }
  if (answer.status === 401) throw new Unauthorized();
  const body = await answer.json().catch(() => null);
  if (!answer.ok) throw new Error(body?.detail ?? body?.title ?? `the server answers ${answer.status}`);
  if (body === null) throw new Error('the server answered something that is not JSON');
  return body;
}
