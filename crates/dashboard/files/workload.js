// One template: the tree to its Pods, why it is where it is, and what happened.
// @ts-check
import { h } from './dom.js';
import { quoted } from './format.js';
import { happened, mark, none, notes, pages, tools, WORDS } from './parts.js';

/** @typedef {import('./app.js').Context} Context */

const TABS = { tree: 'Tree', why: 'Why', timeline: 'Timeline' };
const VIEWS = { tree: 'workload', why: 'why', timeline: 'timeline' };

/** @param {Context} context */
function about({ parts }) {
  const [namespace, kind, name] = parts;
  return { namespace: namespace === '-' ? '' : namespace, kind, name };
}

/** @param {Context} context @returns {'tree' | 'why' | 'timeline'} */
function tab(context) {
  const named = context.search.get('tab') ?? '';
  return named in TABS ? /** @type {any} */ (named) : 'tree';
}

/** @type {import('./app.js').Page} */
export const workload = {
  title: (context) => {
    const { namespace, kind, name } = about(context);
    return `${kind.split('.')[0]} ${namespace ? `${namespace}/` : ''}${name}`;
  },
  crumb: () => h('a', { href: '/workloads' }, 'Workloads'),
  view: (context) => {
    const search = new URLSearchParams([...context.search].filter(([key]) => key !== 'tab'));
    return `view=${VIEWS[tab(context)]}&${new URLSearchParams(about(context))}&${search}`;
  },
  cli: (context) => {
    const { namespace, kind, name } = about(context);
    const object = `${quoted(kind)}/${quoted(name)}`;
    const place = namespace ? ` -n ${quoted(namespace)}` : '';
    if (tab(context) === 'tree') return `ironclad tree ${object}${place} --pods`;
    if (tab(context) === 'why') return `ironclad why ${object}${place}`;
    return `ironclad get events${place || ' -A'}`;
  },
  draw(view, context) {
    const chosen = tab(context);
    const shown = { tree, why, timeline }[chosen];
    return [tabs(context, chosen), h('div', { role: 'tabpanel', id: 'panel', 'aria-labelledby': `tab-${chosen}`, key: `panel ${chosen}` },
      notes(view.notes), shown(view, context))];
  },
};

/** @param {Context} context @param {string} chosen */
function tabs(context, chosen) {
  const names = Object.keys(TABS);
  const to = (/** @type {string} */ name) => context.set({ tab: name === 'tree' ? '' : name, filter: '', sort: '', offset: '' });
  const press = (/** @type {any} */ event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[/** @type {'ArrowRight'} */ (event.key)];
    if (!step) return;
    const next = names[(names.indexOf(chosen) + step + names.length) % names.length];
    to(next);
    document.getElementById(`tab-${next}`)?.focus();
  };
  return h('div', { class: 'tabs', role: 'tablist', 'aria-label': 'About the workload', key: 'tabs' }, Object.entries(TABS).map(([name, title]) => h('button', {
    role: 'tab', id: `tab-${name}`, 'aria-selected': String(name === chosen), 'aria-controls': 'panel', tabindex: name === chosen ? '0' : '-1',
    click: () => to(name), keydown: press,
  }, title)));
}

/** @param {any} view @param {Context} context */
function tree(view, context) {
  const { links, firstBroken } = view.tree;
  const memory = context.memory;
  memory.closed ??= new Set();
  // A link is named by its place and its object: the list changes while it is open.
  const keys = links.map((/** @type {any} */ link) => `${link.depth} ${link.object}`);
  const hasChildren = (/** @type {number} */ i) => (links[i + 1]?.depth ?? 0) > links[i].depth;
  /** @type {number[]} */
  const visible = [];
  let hidden = Infinity;
  links.forEach((/** @type {any} */ link, /** @type {number} */ i) => {
    if (link.depth > hidden) return;
    hidden = memory.closed.has(keys[i]) ? link.depth : Infinity;
    visible.push(i);
  });
  const active = visible.find((i) => keys[i] === memory.active) ?? visible[0];
  const focus = (/** @type {number | undefined} */ i) => {
    if (i === undefined) return;
    memory.active = keys[i];
    context.draw();
    const element = document.querySelector('[role="treeitem"][tabindex="0"]');
    if (element instanceof HTMLElement) element.focus();
  };
  const toggle = (/** @type {number} */ i, /** @type {boolean} */ close) => {
    if (!hasChildren(i)) return;
    close ? memory.closed.add(keys[i]) : memory.closed.delete(keys[i]);
    focus(i);
  };
  const parent = (/** @type {number} */ i) => visible.filter((other) => other < i && links[other].depth < links[i].depth).at(-1);
  const press = (/** @type {any} */ event) => {
    const at = visible.indexOf(active);
    const isClosed = memory.closed.has(keys[active]);
    const moves = /** @type {Record<string, () => void>} */ ({
      ArrowDown: () => focus(visible[at + 1]),
      ArrowUp: () => focus(visible[at - 1]),
      Home: () => focus(visible[0]),
      End: () => focus(visible.at(-1)),
      ArrowRight: () => (isClosed ? toggle(active, false) : hasChildren(active) && focus(visible[at + 1])),
      ArrowLeft: () => (hasChildren(active) && !isClosed ? toggle(active, true) : focus(parent(active))),
      Enter: () => toggle(active, !isClosed),
    });
    let move = moves[event.key];
    if (!move && event.key.length === 1 && /[\p{L}\p{N}]/u.test(event.key) && !event.ctrlKey && !event.metaKey && !event.altKey) {
      const letter = event.key.toLowerCase();
      const next = [...visible.slice(at + 1), ...visible.slice(0, at)].find((i) => links[i].object.toLowerCase().startsWith(letter));
      move = () => focus(next);
    }
    if (!move) return;
    event.preventDefault();
    event.stopPropagation();
    move();
  };
  const siblings = (/** @type {number} */ i) => {
    let [first, last] = [i, i];
    while (first > 0 && links[first - 1].depth >= links[i].depth) first -= 1;
    while (last + 1 < links.length && links[last + 1].depth >= links[i].depth) last += 1;
    return links.map((/** @type {any} */ link, /** @type {number} */ at) => (link.depth === links[i].depth && at >= first && at <= last ? at : -1)).filter((/** @type {number} */ at) => at >= 0);
  };
  return h('div', { role: 'tree', 'aria-label': 'From the template to its Pods', keydown: press }, visible.map((i) => {
    const link = links[i];
    const beside = siblings(i);
    const isOpen = hasChildren(i) ? String(!memory.closed.has(keys[i])) : null;
    return h('div', {
      key: keys[i], role: 'treeitem', class: `l${Math.min(link.depth + 1, 8)}`, 'aria-level': link.depth + 1, 'aria-setsize': beside.length,
      'aria-posinset': beside.indexOf(i) + 1, 'aria-expanded': isOpen, tabindex: i === active ? '0' : '-1', click: () => focus(i),
    },
    h('span', { class: 'twist', 'aria-hidden': 'true', click: () => toggle(i, isOpen === 'true') }, isOpen === null ? '' : isOpen === 'true' ? '▾' : '▸'),
    mark(link.state, ''), h('span', { class: 'hidden' }, `${WORDS[link.state]}: `), h('span', { class: 'object' }, link.object),
    link.detail ? h('span', { class: 'quiet' }, link.detail) : null,
    firstBroken === i ? h('span', { class: link.state === 'Broken' ? 'tag bad' : 'tag wait' }, link.state === 'Broken' ? 'look here first' : 'waits for this') : null);
  }));
}

/** @param {any} view */
function why(view) {
  return h('pre', { tabindex: '0', role: 'region', 'aria-label': 'Why it is where it is' }, view.text);
}

/** @param {any} view @param {Context} context */
function timeline(view, context) {
  if (!view.total) return none('Nothing is known to have happened: events are kept for an hour, and there is no binding.');
  return [tools(context, view, 'type=Warning, text'), happened(context, 'Timeline', view.rows), pages(context, view)];
}
