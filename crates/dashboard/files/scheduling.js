// The queue of the scheduler, preemptions, and what it counts as free in each cluster.
// @ts-check
import { ago, bytes, cores, count } from './format.js';
import { h } from './dom.js';
import { clusterLink, failure, happened, hidden, mark, none, notes, pages, stacked, table, tabs, tools, WORDS, workloadPath } from './parts.js';

/** @typedef {import('./app.js').Context} Context */

const TABS = { queue: 'Queue', preemptions: 'Preemptions', capacity: 'Capacity' };
const VIEWS = { queue: 'scheduling', preemptions: 'preemptions', capacity: 'accounts' };
const LINES = {
  queue: 'ironclad get --raw /apis/explain.ironclad.io/v1alpha1/schedulingqueue',
  preemptions: 'ironclad get events -A --field-selector reason=BindingPreempted',
  capacity: 'ironclad top clusters',
};
const STATES = /** @type {Record<string, 'Ok' | 'Waiting' | 'Broken'>} */ ({ Scheduling: 'Ok', Active: 'Waiting', Backoff: 'Broken', Unschedulable: 'Broken' });

/** @param {Context} context @returns {keyof typeof TABS} */
function tab({ search }) {
  const named = search.get('tab') ?? '';
  return named in TABS ? /** @type {any} */ (named) : 'queue';
}

/** @param {Context} context */
const byNode = (context) => tab(context) === 'capacity' && context.search.get('by') === 'nodes';

/** @param {Context} context */
const rows = ({ search }) => new URLSearchParams([...search].filter(([key]) => key !== 'tab'));

/** @type {import('./app.js').Page} */
export const scheduling = {
  title: () => 'Scheduling',
  // Members are asked for their nodes when somebody wants that.
  view: (context) => (byNode(context) ? null : `view=${VIEWS[tab(context)]}&${rows(context)}`),
  cli: (context) => LINES[tab(context)],
  draw(view, context) {
    const chosen = tab(context);
    if (!byNode(context)) return tabs(context, 'About scheduling', TABS, chosen, [notes(view.notes), { queue, preemptions, capacity }[chosen](view, context)]);
    const { value, failed } = context.once('nodes', `/api/accounts?${rows(context)}`);
    const shown = value ? capacity(value, context) : failed ? failure(failed) : h('p', { class: 'quiet', role: 'status', key: 'asking' }, 'Asking the members for their nodes and Pods …');
    return tabs(context, 'About scheduling', TABS, chosen, [notes(value?.notes), shown]);
  },
};

/** @param {any} view @param {Context} context */
function queue(view, context) {
  if (view.unknown) return [none(`The queue is not known here: ${view.unknown}`, 'ironclad get rb -A -o wide')];
  if (!view.total) return [none('No binding waits for the scheduler. Why one is where it is:', 'ironclad why TYPE/NAME')];
  return [
    h('p', { class: 'sum', key: 'sum' }, h('b', null, `${count(view.total, 'binding')} waiting for the scheduler`)),
    tools(context, view, 'state=Unschedulable, text'),
    table(context, 'Queue of the scheduler', [
      { name: 'Position', field: 'position', kind: 'number', cell: (row) => row.position },
      { name: 'Binding', field: 'binding.name', first: true, cell: (row) => (row.binding.namespace ? `${row.binding.namespace}/` : '') + row.binding.name },
      { name: 'State', field: 'state', kind: 'tight', cell: (row) => mark(STATES[row.state] ?? 'Waiting', row.state) },
      { name: 'Priority', field: 'priority', kind: 'number', cell: (row) => row.priority },
      { name: 'Cause', field: 'cause', cell: (row) => row.cause },
      { name: 'Attempts', field: 'attempts', kind: 'number', cell: (row) => row.attempts },
      { name: 'Message', field: 'message', kind: 'text', cell: (row) => row.message ?? '–' },
    ], view.rows, { key: (row) => `${row.binding.namespace}/${row.binding.name}` }),
    pages(context, view),
  ];
}

/** @param {any} row */
function workload(row) {
  const name = row.type ? h('a', { href: workloadPath(row) }, row.name) : row.name;
  return [name, ' ', h('span', { class: 'quiet' }, row.kind || 'gone')];
}

/** @param {any[]} shares */
function shares(shares) {
  if (!shares.length) return h('span', { class: 'mark Broken' }, 'no cluster');
  return h('div', { class: 'places' }, shares.map((one) => h('span', { class: 'tight' }, clusterLink(one.name), one.replicas ? `:${one.replicas}` : null)));
}

/** @param {any} victim */
function leaves(victim) {
  return h('div', null, workload(victim), ` (priority ${victim.priority ?? 0}) left `, clusterLink(victim.from),
    victim.replicas ? ` with ${count(victim.replicas, 'replica')}` : null, victim.since ? [' ', ago(victim.since)] : null,
    h('span', { class: 'why' }, 'runs in ', shares(victim.clusters)));
}

/** @param {any} view @param {Context} context */
function preemptions(view, context) {
  return [
    view.total ? [
      tools(context, view, 'namespace=shop, state=Broken, text'),
      table(context, 'Preemptions', [
        { name: 'For', field: 'name', first: true, cell: workload },
        { name: 'Namespace', field: 'namespace', kind: 'tight', cell: (row) => row.namespace },
        { name: 'Priority', field: 'priority', kind: 'number', cell: (row) => row.priority ?? '–' },
        { name: 'State', field: 'state', cell: (row) => [mark(row.state, row.state === 'Ok' ? 'has its place' : WORDS[row.state]), row.reason ? h('span', { class: 'why' }, row.reason) : null] },
        { name: 'Held for it', field: 'held', cell: (row) => (row.held.length ? shares(row.held) : h('span', { class: 'quiet' }, '–')) },
        { name: 'Who leaves', field: 'victims', cell: (row) => row.victims.map(leaves) },
      ], view.rows, { key: (row) => `${row.namespace}/${row.name}` }),
      pages(context, view),
    ] : hidden(view) ? null : none('No workload is being preempted. Who would leave for one:', 'ironclad plan preemption NAME -n NAMESPACE'),
    view.past.length ? h('section', { key: 'past', 'aria-labelledby': 'h-past' },
      h('h2', { id: 'h-past' }, 'Preempted lately'), happened(null, 'Preempted lately', view.past)) : null,
  ];
}

/** @param {string} resource @returns {(number: number) => string} */
function written(resource) {
  return resource === 'cpu' ? cores : resource === 'memory' || resource.endsWith('storage') ? bytes : String;
}

/** @param {string} resource @param {any} one */
function amounts(resource, one) {
  if (!one) return h('span', { class: 'quiet' }, '–');
  const text = (/** @type {number} */ number) => (number < 0 ? `-${written(resource)(-number)}` : written(resource)(number));
  const taken = [one.observed ? `${text(one.observed)} observed` : '', one.promised ? `${text(one.promised)} promised` : '', one.held ? `${text(one.held)} held` : ''];
  return [`${text(one.free)} free`, h('span', { class: 'quiet' }, ` of ${text(one.offered)}`),
    h('span', { class: 'why' }, taken.filter(Boolean).join(', ') || 'nothing taken'), stacked(one.observed, one.promised + one.held, one.offered)];
}

/** @param {any} row */
function others(row) {
  const all = Object.entries(row.resources).filter(([name]) => !['cpu', 'memory', 'pods'].includes(name));
  return all.length ? all.map(([name, one]) => h('div', null, h('span', { class: 'quiet' }, `${name}: `), amounts(name, one))) : h('span', { class: 'quiet' }, '–');
}

/** @param {any} view @param {Context} context */
function capacity(view, context) {
  const nodes = byNode(context);
  const source = h('label', null, 'Counted by', h('select', { value: nodes ? 'nodes' : '', change: (/** @type {any} */ event) => context.set({ by: event.target.value, offset: '' }) },
    h('option', { value: '', selected: !nodes }, 'reports of clusters'), h('option', { value: 'nodes', selected: nodes }, 'nodes and Pods')));
  const how = view.leaderCountsNodes === null ? 'Which of both the leader counts by is not known here.' : view.leaderCountsNodes
    ? 'The leader counts by nodes and Pods, which it watches; members are asked for them here once, and reports are followed.' : 'The leader counts by the reports of clusters.';
  if (!view.total) return [none('No cluster has joined the fleet.', 'ironclad join member1 --cluster-kubeconfig FILE')];
  return [
    h('p', { class: 'quiet', key: 'how' }, 'Free is what nodes offer, less the requests of Pods that are there, what is promised to bindings and not observed yet, and what is held for preemptors. How many replicas of a workload fit is told by ', h('code', null, 'ironclad why TYPE/NAME'), '. ', how),
    tools(context, view, 'state=Waiting, name=member1', source, nodes ? h('button', { click: () => context.again('nodes') }, 'Ask again') : null),
    table(context, 'Capacity', [
      { name: 'Cluster', field: 'name', first: true, cell: (row) => clusterLink(row.name) },
      { name: 'State', field: 'state', cell: (row) => [mark(row.state, row.state === 'Ok' ? 'has room' : WORDS[row.state]), row.reason ? h('span', { class: 'why' }, row.reason) : null] },
      { name: 'CPU', field: 'resources.cpu.free', kind: 'tight', cell: (row) => amounts('cpu', row.resources.cpu) },
      { name: 'Memory', field: 'resources.memory.free', kind: 'tight', cell: (row) => amounts('memory', row.resources.memory) },
      { name: 'Pods', field: 'resources.pods.free', kind: 'tight', cell: (row) => amounts('pods', row.resources.pods) },
      { name: 'Other resources', cell: others },
    ], view.rows, { key: (row) => row.name }),
    pages(context, view),
  ];
}
