// What would happen: clusters are lost, or a cluster gets a taint.
// @ts-check
import { h } from './dom.js';
import { count, quoted, span } from './format.js';
import { clusterLink, failure, mark, none, table } from './parts.js';

/** @typedef {import('./app.js').Context} Context */

const STATUS = /** @type {Record<string, ['Ok' | 'Waiting' | 'Broken', string]>} */ ({
  Moved: ['Ok', 'moved'], MovedButKept: ['Waiting', 'moved, the old copy stays'], Returned: ['Ok', 'returned'],
  NotRunning: ['Broken', 'placed, but does not start'], Unschedulable: ['Broken', 'no cluster takes it'],
});

/** @param {number} seconds */
const after = (seconds) => span(seconds * 1000);

/**
 * A plan that is computed once, with its outcome.
 * @param {Context} context
 * @param {string} path
 */
export function outcome(context, path) {
  const { value, failed, asked } = context.once('plan', path);
  const again = h('button', { click: () => context.again('plan'), disabled: asked, key: 'again' }, 'Plan again');
  if (failed) return [failure(failed), again];
  if (!value) return [h('p', { class: 'quiet', role: 'status' }, 'Planning …')];
  const { moves, waits, peakRate, peakPerMinute, lasts, cutOff, quietBecause, nodesUnknown } = value.plan;
  const sum = moves.length
    ? [h('b', null, `${count(moves.length, 'eviction')} within ${after(lasts)}`), `, at most ${peakRate} per second in force, ${peakPerMinute} within one minute`]
    : [h('b', null, 'Nothing would move'), quietBecause ? `: ${quietBecause}` : null];
  return [
    h('p', { class: 'sum' }, sum, cutOff ? '; the fleet would still be changing at the horizon' : null),
    Object.entries(nodesUnknown ?? {}).map(([cluster, why]) => h('p', { class: 'quiet' }, `What fits into ${cluster} is by its summary: ${why}`)),
    moves.length ? table(null, 'Moves', [
      { name: 'Evicted after', kind: 'number', cell: (row) => after(row.evicted) },
      { name: 'Workload', first: true, cell: (row) => row.resource },
      { name: 'From', kind: 'tight', cell: (row) => clusterLink(row.from) },
      { name: 'Before and after', kind: 'tight', cell: (row) => ends(row) },
      { name: 'Outcome', cell: (row) => [mark(...(STATUS[row.status] ?? ['Waiting', row.status])), row.because ? h('span', { class: 'why' }, row.because) : null] },
      { name: 'Purge', cell: (row) => row.purgeMode },
      { name: 'Reason', kind: 'text', cell: (row) => row.reason },
    ], moves) : null,
    waits.length ? [h('h2', null, `${count(waits.length, 'eviction')} would not happen`), table(null, 'Evictions that would not happen', [
      { name: 'Workload', first: true, cell: (row) => row.resource },
      { name: 'Stays on', kind: 'tight', cell: (row) => clusterLink(row.from) },
      { name: 'State', cell: (row) => row.state },
      { name: 'Taints', cell: (row) => row.causes.join(', ') },
      { name: 'Reason', kind: 'text', cell: (row) => row.because },
    ], waits)] : null,
    h('p', null, again),
  ];
}

/** @param {any} row */
function ends(row) {
  const all = Object.entries(row.ends).map(([name, replicas]) => (replicas ? `${name}:${replicas}` : name));
  return `${row.from} → ${all.join(', ') || 'nowhere'}`;
}

/** @param {Context} context */
function asked({ search }) {
  const clusters = (search.get('clusters') ?? '').split(/[ ,]+/).filter(Boolean);
  const taint = search.get('taint') ?? '';
  return { clusters, taint };
}

/** @type {import('./app.js').Page} */
export const plan = {
  title: () => 'Plan',
  view: () => null,
  cli: (context) => {
    const { clusters, taint } = asked(context);
    if (taint) return `ironclad plan taint ${quoted(clusters[0] ?? 'CLUSTER')} ${quoted(taint)}`;
    return `ironclad plan cluster-loss ${clusters.map(quoted).join(' ') || 'CLUSTER'}`;
  },
  draw(_, context) {
    const { clusters, taint } = asked(context);
    const submit = (/** @type {any} */ event) => {
      event.preventDefault();
      const value = (/** @type {string} */ name) => event.target.elements[name].value.trim();
      context.set({ clusters: value('clusters'), taint: value('taint') });
      context.again('plan');
    };
    const query = new URLSearchParams(clusters.map((name) => ['cluster', name]));
    if (taint) query.set('taint', taint);
    return [
      h('form', { class: 'tools', submit, key: 'form' },
        h('label', null, 'Clusters', h('input', { type: 'text', name: 'clusters', value: clusters.join(' '), placeholder: 'member1 member2', autocomplete: 'off', required: true })),
        h('label', null, 'Taint', h('input', { type: 'text', name: 'taint', value: taint, placeholder: 'none: they are lost', autocomplete: 'off' })),
        h('button', { type: 'submit' }, 'Plan')),
      h('p', { class: 'quiet', key: 'how' }, 'The real decisions over a copy of the fleet, in virtual time. Nothing is written. With a taint (KEY=VALUE:EFFECT) the first cluster gets it; without one all of them are lost.'),
      clusters.length ? h('section', { key: 'outcome', 'aria-label': 'Outcome' }, outcome(context, `/api/plan?${query}`)) : none('Name clusters to see what their loss would move.', 'ironclad plan cluster-loss CLUSTER'),
    ];
  },
};
