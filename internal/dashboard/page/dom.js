// Building and updating the page. Text only ever goes in as text: names and errors come from strangers.

const svgNS = 'http://www.w3.org/2000/svg';

export const $ = (id) => document.getElementById(id);

export function el(tag, attrs = {}, ...children) {
  return fill(document.createElement(tag), attrs, children);
}

export function svg(tag, attrs = {}, ...children) {
  return fill(document.createElementNS(svgNS, tag), attrs, children);
}

function fill(node, attrs, children) {
  for (const [k, v] of Object.entries(attrs)) setAttr(node, k, v);
  node.append(...children);
  return node;
}

// setText writes only what changed, so that selections and screen readers are not disturbed once a second.
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setAttr(node, name, value) {
  if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value === true ? '' : value);
}

// show fills an element's text, or hides the element when there is none.
export function show(node, text) {
  node.hidden = !text;
  setText(node, text || '');
}

// rows makes tbody have one row an item. A cell is text, or {text, cls, sub}; the first is the row's header.
export function rows(tbody, items, cellsOf, attrsOf = () => ({})) {
  while (tbody.rows.length > items.length) tbody.deleteRow(-1);
  items.forEach((item, i) => {
    const cells = cellsOf(item);
    const tr = tbody.rows[i] ?? tbody.insertRow();
    while (tr.cells.length < cells.length) tr.append(tr.cells.length === 0 ? el('th', { scope: 'row' }) : el('td'));
    cells.forEach((c, k) => cell(tr.cells[k], c));
    for (const [k, v] of Object.entries(attrsOf(item))) setAttr(tr, k, v);
  });
}

export function cell(node, c) {
  const { text, cls = '', sub = '' } = typeof c === 'object' ? c : { text: c };
  setAttr(node, 'class', cls || null);
  if (node.childNodes.length !== 2) node.replaceChildren(document.createTextNode(''), el('span', { class: 'sub' }));
  if (node.firstChild.data !== text) node.firstChild.data = text;
  setText(node.lastChild, sub ? ' ' + sub : '');
}

// terms makes a dl have the given entries, each {name, text, sub, cls}.
export function terms(dl, entries, wrap) {
  const flat = () => [...dl.querySelectorAll('dt')];
  if (flat().map((t) => t.textContent).join('\n') !== entries.map((e) => e.name).join('\n')) {
    dl.replaceChildren(...entries.flatMap((e) => {
      const pair = [el('dt', {}, e.name), el('dd')];
      return wrap ? [el('div', {}, ...pair)] : pair;
    }));
  }
  const values = dl.querySelectorAll('dd');
  entries.forEach((e, i) => cell(values[i], e));
}
