// One template: the tree to its Pods, why it is where it is, what happened, its manifests, and logs of its copies.
// @ts-check
import { actions } from './actions.js';
import { byCluster, chart } from './chart.js';
import { h } from './dom.js';
import { count, quoted } from './format.js';
import { clusterLink, failure, happened, mark, none, notes, pages, table, tabs, tools, WORDS } from './parts.js';
import { usage } from './usage.js';

/** @typedef {import('./app.js').Context} Context */

const TABS = { tree: 'Tree', why: 'Why', timeline: 'Timeline', yaml: 'YAML', usage: 'Usage', logs: 'Logs' };
/** Kinds whose Pods can be restarted. */
const ROLLOUTS = ['deployment.apps', 'statefulset.apps', 'daemonset.apps'];
const VIEWS = { tree: 'workload', why: 'why', timeline: 'timeline', yaml: 'manifests', usage: null, logs: null };

/** @param {Context} context */
function about({ parts }) {
  const [namespace, kind, name] = parts;
  return { namespace: namespace === '-' ? '' : namespace, kind, name };
}

/** @param {Context} context @returns {keyof typeof TABS} */
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
    const view = VIEWS[tab(context)];
    // Logs and usage are read when somebody asks for them.
    return view && `view=${view}&${new URLSearchParams(about(context))}&${search}`;
  },
  cli: (context) => {
    const { namespace, kind, name } = about(context);
    const object = `${quoted(kind)}/${quoted(name)}`;
    const place = namespace ? ` -n ${quoted(namespace)}` : '';
    if (tab(context) === 'tree') return `ironclad tree ${object}${place} --pods`;
    if (tab(context) === 'why') return `ironclad why ${object}${place}`;
    if (tab(context) === 'usage') return `ironclad top pod${place || ' -A'}`;
    if (tab(context) === 'logs') return `ironclad logs ${object}${place} --tail 200`;
    const cluster = context.search.get('cluster');
    if (tab(context) === 'yaml') return `ironclad get ${object}${place}${cluster ? ` -C ${quoted(cluster)}` : ''} -o yaml`;
    return `ironclad get events${place || ' -A'}`;
  },
  draw(view, context) {
    const chosen = tab(context);
    const shown = { tree, why, timeline, yaml, usage: used, logs }[chosen];
    const acts = [{ title: 'Rebalance', action: 'rebalance', body: about(context) }];
    if (ROLLOUTS.includes(about(context).kind)) acts.push({ title: 'Restart', action: 'restart', body: about(context) });
    return [actions(acts), tabs(context, 'About the workload', TABS, chosen, [notes(view?.notes), shown(view, context)])];
  },
};

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
  const shown = h('div', { role: 'tree', 'aria-label': 'From the template to its Pods', keydown: press }, visible.map((i) => {
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
  const { since, placements = [] } = view.lately ?? {};
  return [shown, chart('Replicas over the last hour', byCluster(placements), since, true)];
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

const SIGNS = /** @type {Record<string, string | null>} */ ({ '+': 'added', '-': 'removed' });

/** @param {any} view @param {Context} context */
function yaml(view, context) {
  const show = (/** @type {string} */ cluster) => context.set({ cluster });
  const changes = (/** @type {any} */ row) => [row.added ? count(row.added, 'line') + ' added' : '', row.removed ? count(row.removed, 'line') + ' removed' : ''].filter(Boolean).join(', ');
  const name = view.cluster ? `The copy in ${view.cluster}` : 'The template';
  return [
    view.total ? [
      tools(context, view, 'name=member1, added!=0', h('button', { click: () => show(''), 'aria-pressed': String(!view.cluster) }, 'The template')),
      table(context, 'Copies', [
        { name: 'Cluster', field: 'name', first: true, cell: (row) => clusterLink(row.name) },
        { name: 'Difference from the template', field: 'added', cell: (row) => changes(row) || h('span', { class: 'quiet' }, 'none') },
        { name: 'Manifest', cell: (row) => h('button', { click: () => show(row.name), 'aria-pressed': String(view.cluster === row.name), 'aria-label': `Manifest in ${row.name}` }, 'Show') },
      ], view.rows, { key: (row) => row.name }),
      pages(context, view),
    ] : null,
    h('h2', { key: 'which' }, name),
    h('p', { class: 'quiet', key: 'how' }, 'Without status, and without labels and annotations of propagation. Of Secrets only the length of values is told.'),
    h('pre', { tabindex: '0', role: 'region', 'aria-label': name, key: `lines ${view.cluster}` },
      view.lines.map((/** @type {any} */ line) => h('span', { class: SIGNS[line.sign] ?? null }, `${line.sign} ${line.text}\n`))),
  ];
}

/** @param {any} _ @param {Context} context */
function used(_, context) {
  const search = new URLSearchParams([...context.search].filter(([key]) => key !== 'tab'));
  return usage(context, `/api/pod-usage?${new URLSearchParams(about(context))}&${search}`, 'Pod', workload.cli(context), true);
}

/** @param {any} _ @param {Context} context */
function logs(_, context) {
  const { value, failed, asked } = context.once('logs', `/api/logs?${new URLSearchParams(about(context))}`);
  const again = h('p', { key: 'again' }, h('button', { click: () => context.again('logs'), disabled: asked }, 'Read again'));
  if (failed) return [failure(failed), again];
  if (!value) return h('p', { class: 'quiet', role: 'status', key: 'reading' }, 'Reading the logs of all copies …');
  return [
    again, notes(value.notes),
    value.logs.length ? null : none('No copy has Pods.', 'ironclad get pods -A -s members'),
    value.logs.map((/** @type {any} */ log) => {
      const name = `${log.cluster} / ${log.pod}${log.container ? ` / ${log.container}` : ''}`;
      return h('section', { key: name, 'aria-label': name },
        h('h2', null, clusterLink(log.cluster), ` / ${log.pod}`, log.container ? h('span', { class: 'quiet' }, ` / ${log.container}`) : null),
        log.error ? h('p', null, mark('Broken', log.error))
          : h('pre', { class: 'log', tabindex: '0', role: 'region', 'aria-label': `Log of ${name}` }, log.text || 'nothing was logged'));
    }),
  ];
}
