// The eviction queue, in order.
// @ts-check
import { actions } from './actions.js';
import { chart } from './chart.js';
import { ago } from './format.js';
import { clusterLink, mark, none, notes, pages, rateLine, table, tools } from './parts.js';

const STATES = /** @type {Record<string, 'Ok' | 'Waiting' | 'Broken'>} */ ({ Parked: 'Broken', Retrying: 'Broken' });

/**
 * Elements of the queue.
 * @param {import('./app.js').Context | null} context
 * @param {any[]} rows
 */
export function queue(context, rows) {
  return table(context, 'Evictions', [
    { name: 'Position', field: 'position', kind: 'number', cell: (row) => row.position ?? '–' },
    { name: 'Binding', field: 'binding.name', first: true, cell: (row) => (row.binding.namespace ? `${row.binding.namespace}/` : '') + row.binding.name },
    { name: 'From', field: 'cluster', kind: 'tight', cell: (row) => clusterLink(row.cluster) },
    { name: 'State', field: 'state', kind: 'tight', cell: (row) => mark(STATES[row.state] ?? 'Waiting', row.state) },
    { name: 'Waits since', field: 'since', kind: 'tight', cell: (row) => ago(row.since) },
    { name: 'Due', field: 'due', kind: 'tight', cell: (row) => ago(row.due) },
    { name: 'Expected', field: 'expected', kind: 'tight', cell: (row) => ago(row.expected) },
    { name: 'Purge', field: 'purgeMode', cell: (row) => row.purgeMode },
    { name: 'Taints', field: 'causes', cell: (row) => row.causes.join(', ') },
    { name: 'Waits for', field: 'because', kind: 'text', cell: (row) => row.because ?? '–' },
  ], rows, { key: (row) => `${row.binding.namespace}/${row.binding.name} ${row.cluster}` });
}

/** The queue over the last hour, if something waited in it. @param {any} told */
function lately({ since, evictions = [] } = {}) {
  if (!evictions.some((/** @type {any} */ one) => one.waiting || one.parked)) return null;
  const line = (/** @type {string} */ name, /** @type {string} */ field) => ({ name, points: evictions.map((/** @type {any} */ one) => [Date.parse(one.at), one[field]]) });
  return chart('Last hour', [line('waiting', 'waiting'), line('with nowhere to go', 'parked'), line('evictions per second in force', 'rate')], since, false);
}

/** @type {import('./app.js').Page} */
export const evictions = {
  title: () => 'Evictions',
  view: ({ search }) => `view=evictions&${search}`,
  cli: () => 'ironclad get evictions -o wide',
  draw(view, context) {
    const change = view.paused ? { title: 'Resume evictions', action: 'resume-failover' } : { title: 'Pause all evictions', action: 'pause-failover' };
    const head = [rateLine(view.rate, view.paused), actions([change]), notes(view.notes), lately(view.lately)];
    if (!view.total) return [...head, none('No evictions wait. What the loss of a cluster would evict:', 'ironclad plan cluster-loss CLUSTER')];
    return [...head, tools(context, view, 'state=Parked, cluster=member1, text'), queue(context, view.rows), pages(context, view)];
  },
};
