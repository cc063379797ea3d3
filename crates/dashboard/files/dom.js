// From descriptions of elements to elements. Text becomes text nodes, never markup.
// @ts-check

/**
 * @typedef {{tag: string, props: Record<string, any>, kids: Node_[]}} Element_
 * @typedef {Element_ | string} Node_
 */

const OF_SVG = new Set(['svg', 'rect', 'path']);
const NAMESPACE = 'http://www.w3.org/2000/svg';
/** Handlers of elements, so that a later description can replace them. */
const HANDLERS = new WeakMap();

/**
 * Describes an element. Lists of children are flattened; null and false stand for none.
 * @param {string} tag
 * @param {Record<string, any> | null} [props] `key` tells children of one element apart.
 * @param {...any} kids
 * @returns {Element_}
 */
export function h(tag, props, ...kids) {
  const flat = kids.flat(Infinity).filter((kid) => kid !== null && kid !== undefined && kid !== false && kid !== '');
  return { tag, props: props ?? {}, kids: flat.map((kid) => (typeof kid === 'object' ? kid : String(kid))) };
}

/**
 * Makes the children of an element what the descriptions say, and keeps those that are there already: focus, selection
 * and scrolling stay.
 * @param {Element} parent
 * @param {Node_[]} wanted
 */
export function patch(parent, wanted) {
  const keyed = new Map();
  for (const child of parent.childNodes) {
    const key = /** @type {any} */ (child).key_;
    if (key !== undefined) keyed.set(key, child);
  }
  let at = parent.firstChild;
  for (const node of wanted) {
    const key = typeof node === 'string' ? undefined : node.props.key;
    let found = key === undefined ? at : keyed.get(key) ?? null;
    if (found && !fits(found, node, key)) found = null;
    const child = found ?? make(node);
    if (child !== at) parent.insertBefore(child, at);
    else at = child.nextSibling;
    fill(child, node);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

/** @param {any} child @param {Node_} node @param {any} key */
function fits(child, node, key) {
  if (typeof node === 'string') return child.nodeType === Node.TEXT_NODE;
  return child.nodeType === Node.ELEMENT_NODE && child.localName === node.tag && child.key_ === key;
}

/** @param {Node_} node @returns {any} */
function make(node) {
  if (typeof node === 'string') return document.createTextNode(node);
  const element = OF_SVG.has(node.tag) ? document.createElementNS(NAMESPACE, node.tag) : document.createElement(node.tag);
  /** @type {any} */ (element).key_ = node.props.key;
  return element;
}

/** @param {any} child @param {Node_} node */
function fill(child, node) {
  if (typeof node === 'string') {
    if (child.data !== node) child.data = node;
    return;
  }
  const names = new Set();
  const handlers = HANDLERS.get(child) ?? {};
  for (const [name, value] of Object.entries(node.props)) {
    if (name === 'key' || value === null || value === undefined || value === false) continue;
    if (typeof value === 'function') {
      if (!(name in handlers)) child.addEventListener(name, (/** @type {Event} */ event) => HANDLERS.get(child)[name]?.(event));
      handlers[name] = value;
      continue;
    }
    const text = value === true ? '' : String(value);
    names.add(name);
    // What somebody types is theirs until the field is left.
    if (name === 'value' && child !== document.activeElement && child.value !== text) child.value = text;
    if (name === 'checked') child.checked = true;
    if (child.getAttribute(name) !== text) child.setAttribute(name, text);
  }
  for (const name of Object.keys(handlers)) if (typeof node.props[name] !== 'function') delete handlers[name];
  HANDLERS.set(child, handlers);
  for (const name of child.getAttributeNames()) {
    if (names.has(name)) continue;
    child.removeAttribute(name);
    if (name === 'checked') child.checked = false;
  }
  patch(child, node.kids);
}
