// FederatedHPAs, and the last round of one.
// @ts-check
import { chart } from './chart.js';
import { h } from './dom.js';
import { ago, count, quoted } from './format.js';
import { mark, none, notes, pages, table, tools } from './parts.js';

const WORDS = { Ok: 'scales', Waiting: 'limited', Broken: 'does not scale' };

/** @type {import('./app.js').Page} */
export const autoscalers = {
  title: () => 'Autoscalers',
  view: ({ search }) => `view=autoscalers&${search}`,
  cli: () => 'ironclad get fhpa -A',
  draw(view, context) {
    if (!view.total) return [none('There is no FederatedHPA. What one would look like:', 'ironclad explain federatedhpa.spec')];
    return [
      h('p', { class: 'sum', key: 'sum' }, h('b', null, count(view.total, 'FederatedHPA'))),
      tools(context, view, 'namespace=shop, state=Broken, text'),
      table(context, 'FederatedHPAs', [
        { name: 'Name', field: 'name', first: true, cell: (row) => h('a', { href: `/autoscaler/${encodeURIComponent(row.namespace)}/${encodeURIComponent(row.name)}` }, row.name) },
        { name: 'Namespace', field: 'namespace', kind: 'tight', cell: (row) => row.namespace },
        { name: 'Scales', field: 'target', kind: 'tight', cell: (row) => row.target },
        { name: 'State', field: 'state', cell: (row) => [mark(row.state, WORDS[/** @type {'Ok'} */ (row.state)]), row.since ? [' ', ago(row.since, 'for')] : null, row.reason ? h('span', { class: 'why' }, row.reason) : null] },
        { name: 'Replicas', field: 'current', kind: 'number', cell: (row) => row.current ?? '–' },
        { name: 'Wanted', field: 'desired', kind: 'number', cell: (row) => row.desired ?? '–' },
        { name: 'Bounds', field: 'max', kind: 'number', cell: (row) => `${row.min} to ${row.max}` },
        { name: 'Changed', field: 'scaled', kind: 'tight', cell: (row) => ago(row.scaled) },
      ], view.rows, { key: (row) => `${row.namespace}/${row.name}` }),
      pages(context, view),
    ];
  },
};

/** Replicas over the last hour, and what each metric proposed. @param {any} view */
function lately({ lately: { since, rounds = [] } = {}, report }) {
  const line = (/** @type {string} */ name, /** @type {(round: any) => number | null} */ value) => ({ name, points: rounds.map((/** @type {any} */ round) => [Date.parse(round.at), value(round) ?? null]) });
  const metrics = (report.metrics ?? []).map((/** @type {any} */ metric, /** @type {number} */ at) => line(`proposed by ${metric.name}`, (round) => round.proposals[at]));
  return rounds.length ? chart('Last hour', [line('replicas', (round) => round.current), line('wanted', (round) => round.desired), ...metrics], since, true) : null;
}

/** @type {import('./app.js').Page} */
export const autoscaler = {
  title: ({ parts }) => `federatedhpa ${parts[0]}/${parts[1]}`,
  crumb: () => h('a', { href: '/autoscalers' }, 'Autoscalers'),
  view: ({ parts }) => `view=autoscaler&${new URLSearchParams({ namespace: parts[0], name: parts[1] })}`,
  cli: ({ parts }) => `ironclad why fhpa/${quoted(parts[1])} -n ${quoted(parts[0])}`,
  draw: (view) => [notes(view.notes), lately(view), h('pre', { tabindex: '0', role: 'region', 'aria-label': 'The last round', key: 'round' }, view.text)],
};
