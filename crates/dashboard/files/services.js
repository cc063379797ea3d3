// Services over clusters: where each comes from, and where it is reached.
// @ts-check
import { h } from './dom.js';
import { ago, count } from './format.js';
import { clusterLink, hidden, mark, none, notes, pages, table, tools, WORDS } from './parts.js';

/** Clusters that a cell names; the rest is a number. */
const NAMED = 8;

/**
 * @param {any[]} all
 * @param {(one: any) => any} told
 */
function clusters(all, told) {
  if (!all.length) return h('span', { class: 'quiet' }, 'none');
  const one = (/** @type {any} */ place) => h('div', null,
    mark(place.state, ''), h('span', { class: 'hidden' }, `${WORDS[place.state]}: `), clusterLink(place.name), ' ', told(place),
    place.detail ? h('span', { class: 'why' }, place.detail) : null);
  return [all.slice(0, NAMED).map(one), all.length > NAMED ? `and ${all.length - NAMED} more` : null];
}

/** @param {any} one */
const offered = (one) => h('span', { class: 'quiet' }, `${count(one.addresses, 'address', 'addresses')} in ${count(one.slices, 'EndpointSlice')}`);

/** @param {any} one */
function copied(one) {
  const from = Object.entries(one.slices ?? {}).map(([cluster, slices]) => `${slices} of ${cluster}`);
  return from.length ? h('span', { class: 'quiet' }, `EndpointSlices: ${from.join(', ')}`) : null;
}

/** @type {import('./app.js').Page} */
export const services = {
  title: () => 'Services',
  view: ({ search }) => `view=services&${search}`,
  cli: () => 'ironclad get multiclusterservices,serviceexports,serviceimports -A',
  draw(view, context) {
    if (!view.total) return [notes(view.notes), hidden(view) ? null : none('No service is reached from several clusters. What one would look like:', 'ironclad explain multiclusterservice.spec')];
    const { Ok = 0, Waiting = 0, Broken = 0 } = view.sums;
    return [
      h('p', { class: 'sum', key: 'sum' }, h('b', null, count(view.total, 'service')), `: ${Ok} healthy, ${Waiting} waiting, `,
        Broken ? h('b', null, `${Broken} broken`) : '0 broken'),
      notes(view.notes), tools(context, view, 'namespace=shop, providers=member1, text'),
      table(context, 'Services', [
        { name: 'Service', field: 'name', first: true, cell: (row) => [row.name, ' ', h('span', { class: 'quiet' }, row.kind)] },
        { name: 'Namespace', field: 'namespace', kind: 'tight', cell: (row) => row.namespace },
        { name: 'State', field: 'state', cell: (row) => [mark(row.state, WORDS[row.state]), row.since ? [' ', ago(row.since, 'for')] : null, row.reason ? h('span', { class: 'why' }, row.reason) : null] },
        { name: 'Addresses', field: 'addresses', kind: 'number', cell: (row) => row.addresses },
        { name: 'Comes from', field: 'providers', cell: (row) => clusters(row.providers, offered) },
        { name: 'Is reached in', field: 'consumers', cell: (row) => (row.kind === 'ServiceExport' ? h('span', { class: 'quiet' }, 'see the ServiceImport') : clusters(row.consumers, copied)) },
      ], view.rows, { key: (row) => `${row.kind} ${row.namespace}/${row.name}` }),
      pages(context, view),
    ];
  },
};
