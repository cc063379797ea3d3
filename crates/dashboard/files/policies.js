// The policies: what each claims, and what others keep from it.
// @ts-check
import { h } from './dom.js';
import { count } from './format.js';
import { clusterLink, hidden, mark, none, notes, pages, table, tools, WORDS } from './parts.js';

/** Clusters and policies that a cell names; the rest is a number. */
const NAMED = 6;

/** @param {{namespace: string, name: string}} policy */
function named({ namespace, name }) {
  return namespace ? `${namespace}/${name}` : name;
}

/** @param {{namespace: string, name: string}} policy */
function templates(policy) {
  return `/workloads?filter=${encodeURIComponent(`policy=${named(policy)}`)}`;
}

/** @param {any} row */
function edit(row) {
  const kind = row.namespace ? 'propagationpolicies.policy.karmada.io' : 'clusterpropagationpolicies.policy.karmada.io';
  return `/plan?${new URLSearchParams({ verb: 'apply', kind, namespace: row.namespace, name: row.name })}`;
}

/** @param {any} row */
function clusters(row) {
  if (!row.chosen && !row.everywhere) return h('span', { class: 'mark Broken' }, 'none');
  if (row.everywhere) return row.chosen ? `all ${row.chosen}` : 'the fleet has none';
  const more = row.chosen - Math.min(row.chosen, NAMED);
  return [h('div', { class: 'places' }, row.clusters.slice(0, NAMED).map(clusterLink)), more ? `and ${more} more` : null];
}

/** @param {any} row */
function shadows(row) {
  const all = row.shadows ?? [];
  if (!all.length) return h('span', { class: 'quiet' }, '–');
  const shown = all.slice(0, NAMED);
  /** @type {string[]} */
  const reasons = [...new Set(shown.map((/** @type {any} */ one) => one.why))];
  return [
    reasons.map((why) => h('div', null,
      shown.filter((/** @type {any} */ one) => one.why === why).map((/** @type {any} */ one) => h('div', null, `${one.templates} by `, h('a', { href: templates(one) }, named(one)))),
      h('span', { class: 'why' }, why))),
    all.length > NAMED ? `and by ${count(all.length - NAMED, 'other policy', 'other policies')}` : null,
  ];
}

/** @type {import('./app.js').Page} */
export const policies = {
  title: () => 'Policies',
  view: ({ search }) => `view=policies&${search}`,
  cli: () => 'ironclad get propagationpolicies,clusterpropagationpolicies -A -o wide',
  draw(view, context) {
    if (!view.total) return [notes(view.notes), hidden(view) ? null : none('There is no policy, so no template is propagated.', 'ironclad apply -f web.yaml --all-clusters')];
    const { Ok = 0, Waiting = 0, Broken = 0 } = view.sums;
    return [
      h('p', { class: 'sum', key: 'sum' }, h('b', null, count(view.total, 'policy', 'policies')), `: ${Ok} in effect, ${Waiting} waiting, `,
        Broken ? h('b', null, `${Broken} broken`) : '0 broken'),
      notes(view.notes), tools(context, view, 'namespace=shop, shadowed!=0, clusters=member1, text'),
      table(context, 'Policies', [
        { name: 'Policy', field: 'name', first: true, cell: (row) => [row.name, ' ', h('span', { class: 'quiet' }, row.kind)] },
        { name: 'Namespace', field: 'namespace', kind: 'tight', cell: (row) => row.namespace || '–' },
        { name: 'State', field: 'state', cell: (row) => [mark(row.state, row.state === 'Ok' ? 'in effect' : WORDS[row.state]), row.reason ? h('span', { class: 'why' }, row.reason) : null] },
        { name: 'Priority', field: 'priority', kind: 'number', cell: (row) => row.priority },
        { name: 'Claims', field: 'templates', kind: 'number', cell: (row) => (row.templates ? h('a', { href: templates(row) }, row.templates) : 0) },
        { name: 'Taken by others', field: 'shadowed', cell: shadows },
        { name: 'Clusters', field: 'chosen', cell: clusters },
        { name: 'Scheduler', field: 'scheduler', kind: 'tight', cell: (row) => row.scheduler },
        { name: 'Preempts policies', field: 'preemption', kind: 'tight', cell: (row) => (row.preemption === 'Always' ? 'always' : 'never') },
        { name: 'Change', kind: 'tight', cell: (row) => h('a', { href: edit(row), 'aria-label': `Plan a change of ${row.name}` }, 'plan a change') },
        { name: 'Changes apply', field: 'lazy', kind: 'tight', cell: (row) => (row.lazy ? 'with the template' : 'at once') },
      ], view.rows, { key: (row) => named(row) }),
      pages(context, view),
    ];
  },
};
