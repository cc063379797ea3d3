// Quotas over clusters: what is used of each limit, and what is refused.
// @ts-check
import { h } from './dom.js';
import { count } from './format.js';
import { clusterLink, hidden, mark, none, notes, pages, stacked, table, tools, WORDS, workloadPath } from './parts.js';

/** @param {any[]} limits */
function used(limits) {
  return limits.map((one) => h('div', { class: 'limit' },
    h('span', { class: 'quiet' }, `${one.resource} `), `${one.used ?? '?'} of ${one.hard}`,
    one.percent === null ? null : [h('span', { class: 'quiet' }, ` ${one.percent}%`), stacked(one.percent > 100 ? 0 : one.percent, one.percent > 100 ? 100 : 0, 100)]));
}

/** @param {any[]} clusters */
function byCluster(clusters) {
  if (!clusters.length) return h('span', { class: 'quiet' }, 'no limit of its own');
  return clusters.map((one) => h('div', null,
    one.state === 'Ok' ? null : [mark(one.state, ''), h('span', { class: 'hidden' }, `${WORDS[one.state]}: `)],
    clusterLink(one.name), one.detail ? h('span', { class: 'why' }, one.detail) : null, used(one.limits)));
}

/** @param {any} row */
function refused(row) {
  if (!row.refused) return h('span', { class: 'quiet' }, 'nothing');
  const named = (row.workloads ?? []).map((/** @type {any} */ one) => h('div', null,
    h('a', { href: workloadPath(one) }, one.name), ' ', h('span', { class: 'quiet' }, one.kind), h('span', { class: 'why' }, one.because)));
  return [named, row.refused > named.length ? `and ${row.refused - named.length} more` : null];
}

/** @type {import('./app.js').Page} */
export const quotas = {
  title: () => 'Quotas',
  view: ({ search }) => `view=quotas&${search}`,
  cli: () => 'ironclad get federatedresourcequotas -A',
  draw(view, context) {
    if (!view.total) return [notes(view.notes), hidden(view) ? null : none('There is no FederatedResourceQuota. What one would look like:', 'ironclad explain federatedresourcequota.spec')];
    const { Ok = 0, Waiting = 0, Broken = 0 } = view.sums;
    return [
      h('p', { class: 'sum', key: 'sum' }, h('b', null, count(view.total, 'quota')), `: ${Ok} kept, ${Waiting} waiting, `,
        Broken ? h('b', null, `${Broken} refuse workloads or lack a cluster`) : '0 refuse anything'),
      notes(view.notes), tools(context, view, 'namespace=shop, refused!=0, clusters=member1, text'),
      table(context, 'Quotas', [
        { name: 'Quota', field: 'name', first: true, cell: (row) => row.name },
        { name: 'Namespace', field: 'namespace', kind: 'tight', cell: (row) => row.namespace },
        { name: 'State', field: 'state', cell: (row) => [mark(row.state, row.state === 'Ok' ? 'kept' : WORDS[row.state]), row.reason ? h('span', { class: 'why' }, row.reason) : null] },
        { name: 'Used in all clusters', field: 'percent', kind: 'tight', cell: (row) => used(row.limits) },
        { name: 'Used by cluster', field: 'clusters', cell: (row) => byCluster(row.clusters) },
        { name: 'Refused', field: 'refused', cell: refused },
      ], view.rows, { key: (row) => `${row.namespace}/${row.name}` }),
      pages(context, view),
    ];
  },
};
