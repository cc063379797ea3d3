// The clusters, with what is bad first.
// @ts-check
import { h } from './dom.js';
import { count } from './format.js';
import { clusterLink, cpu, memory, none, notes, pages, rateLine, readiness, table, tags, tools } from './parts.js';

const GROUPS = { region: 'region', provider: 'provider', zones: 'zone' };

/** @type {import('./app.js').Page} */
export const fleet = {
  title: () => 'Fleet',
  view: ({ search }) => `view=fleet&${new URLSearchParams([...search].filter(([key]) => key !== 'group'))}`,
  cli: () => 'ironclad get clusters -o wide',
  draw(view, context) {
    const { Ok = 0, Waiting = 0, Broken = 0 } = view.sums;
    const head = h('p', { class: 'sum', key: 'sum' }, h('b', null, count(view.total, 'cluster')), `: ${Ok} ready, ${Waiting} waiting, `,
      Broken ? h('b', null, `${Broken} not ready`) : '0 not ready');
    if (!view.total) return [notes(view.notes), none('No cluster has joined the fleet.', 'ironclad join member1 --cluster-kubeconfig FILE')];
    const group = context.search.get('group') ?? '';
    const by = h('label', null, 'Group by', h('select', {
      value: group, change: (/** @type {any} */ event) => context.set({ group: event.target.value }),
    }, h('option', { value: '', selected: !group }, 'nothing'),
    Object.entries(GROUPS).map(([field, name]) => h('option', { value: field, selected: group === field }, name))));
    const value = (/** @type {any} */ row) => (Array.isArray(row[group]) ? row[group].join(', ') : row[group]);
    return [
      head, rateLine(view.rate, view.paused), notes(view.notes), tools(context, view, 'ready=False, region=eu, text', by),
      table(context, 'Clusters', [
        { name: 'Cluster', field: 'name', first: true, cell: (row) => clusterLink(row.name) },
        { name: 'Ready', field: 'ready', cell: readiness },
        { name: 'Workloads', field: 'workloads', kind: 'number', cell: (row) => [row.workloads, row.unhealthy ? h('span', { class: 'mark Broken' }, ` ${row.unhealthy} bad`) : null] },
        { name: 'Replicas', field: 'replicas', kind: 'number', cell: (row) => row.replicas },
        { name: 'Evictions', field: 'evictions', kind: 'number', cell: (row) => (row.evictions ? h('a', { href: `/evictions?filter=cluster%3D${encodeURIComponent(row.name)}` }, row.evictions) : 0) },
        { name: 'CPU requested', field: 'capacity.requested.cpuMillis', kind: 'tight', cell: (row) => cpu(row.capacity) },
        { name: 'Memory requested', field: 'capacity.requested.memoryBytes', kind: 'tight', cell: (row) => memory(row.capacity) },
        { name: 'Pods', field: 'capacity.requested.pods', kind: 'number', cell: (row) => (row.capacity ? `${row.capacity.requested.pods} of ${row.capacity.allocatable.pods}` : '–') },
        { name: 'Nodes', field: 'nodes.total', kind: 'number', cell: (row) => (row.nodes ? `${row.nodes.ready} of ${row.nodes.total}` : '–') },
        { name: 'Taints', field: 'taints', kind: 'taints', cell: (row) => tags(row.taints) },
        { name: 'Mode', field: 'mode', cell: (row) => row.mode },
        { name: 'Version', field: 'version', kind: 'tight', cell: (row) => row.version || '–' },
        { name: 'Region', field: 'region', kind: 'tight', cell: (row) => [row.region, row.zones.join(', ')].filter(Boolean).join(' / ') || '–' },
      ], view.rows, {
        key: (row) => row.name,
        old: (row) => row.ready !== 'True' || Boolean(row.silentSince),
        group: group in GROUPS ? value : undefined,
        of: (rows) => `${rows.filter((row) => row.ready === 'True').length} of ${rows.length} ready`,
      }),
      pages(context, view),
    ];
  },
};
