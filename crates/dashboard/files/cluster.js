// One cluster: its conditions, what runs there, and what its loss would move.
// @ts-check
import { actions } from './actions.js';
import { h } from './dom.js';
import { ago, count, quoted } from './format.js';
import { bindings, cpu, happened, mark, memory, none, notes, pages, readiness, table, tags, tools } from './parts.js';
import { queue } from './evictions.js';
import { outcome } from './plan.js';
import { usage } from './usage.js';

/** @type {import('./app.js').Page} */
export const cluster = {
  title: ({ parts }) => parts[0],
  crumb: () => h('a', { href: '/' }, 'Fleet'),
  view: ({ parts, search }) => `view=cluster&name=${encodeURIComponent(parts[0])}&${search}`,
  cli: ({ parts }) => `ironclad get cluster ${quoted(parts[0])} -o yaml`,
  draw(view, context) {
    const row = view.cluster;
    const name = context.parts[0];
    const fact = (/** @type {string} */ title, /** @type {any} */ value) => [h('dt', null, title), h('dd', null, value || '–')];
    const lost = context.memory.lost;
    const plan = `ironclad plan cluster-loss ${quoted(name)}`;
    return [
      notes(view.notes),
      actions([
        row.taints.some(isCordon) ? { title: 'Uncordon', action: 'uncordon', body: { name } } : { title: 'Cordon', action: 'cordon', body: { name } },
        { title: 'Drain', action: 'drain', body: { name } },
      ]),
      h('dl', { class: 'facts', key: 'facts' },
        fact('Ready', readiness(row)), fact('Taints', row.taints.length ? tags(row.taints) : 'none'),
        fact('CPU requested', cpu(row.capacity)), fact('Memory requested', memory(row.capacity)),
        fact('Nodes', row.nodes ? `${row.nodes.ready} of ${row.nodes.total} ready` : ''),
        fact('Workloads', `${count(row.workloads, 'binding')}, ${count(row.replicas, 'replica')}, ${row.unhealthy} not healthy here`),
        fact('Mode and version', [row.mode, row.version].filter(Boolean).join(', ')),
        fact('Place', [row.provider, row.region, ...row.zones].filter(Boolean).join(' / ')),
        fact('API', h('span', { class: 'mono' }, view.spec.apiEndpoint))),
      section('loss', 'If this cluster were lost', lost
        ? outcome(context, `/api/plan?verb=cluster-loss&cluster=${encodeURIComponent(name)}`)
        : [h('p', { class: 'quiet' }, 'The real decisions over a copy of the fleet: nothing is written. The same is told by ', h('code', null, plan), '.'),
          h('button', { click: () => { context.memory.lost = true; context.draw(); } }, 'Plan its loss')]),
      view.waiting ? section('queue', `${count(view.waiting, 'eviction')} from here`, queue(null, view.evictions)) : null,
      section('usage', 'Used by its nodes', usage(context, `/api/node-usage?name=${encodeURIComponent(name)}`, 'Node', `ironclad top node -C ${quoted(name)}`, false)),
      section('conditions', 'Conditions', view.conditions?.length ? table(null, 'Conditions', [
        { name: 'Type', first: true, cell: (one) => one.type },
        { name: 'Status', kind: 'tight', cell: (one) => mark(one.status === 'True' ? 'Ok' : one.status === 'False' ? 'Broken' : 'Waiting', one.status) },
        { name: 'Changed', kind: 'tight', cell: (one) => ago(one.lastTransitionTime) },
        { name: 'Reason', kind: 'tight', cell: (one) => one.reason },
        { name: 'Message', kind: 'text', cell: (one) => one.message },
      ], view.conditions) : none('Nobody has reported on it yet.', `ironclad why cluster/${quoted(name)}`)),
      section('bindings', 'Placed here', view.total
        ? [tools(context, view, 'state=Broken, text'), bindings(context, 'Workloads placed here', view.rows), pages(context, view)]
        : none('Nothing is placed here.', `ironclad why not ${quoted(name)} deploy/NAME`)),
      view.events.length ? section('events', 'Events', happened(null, 'Events', view.events)) : null,
    ];
  },
};

/** Of the taint that a cordoned cluster has, as `key:effect` or `key=value:effect`. @param {string} taint */
function isCordon(taint) {
  return /^cluster\.karmada\.io\/unschedulable(=.*)?:NoSchedule$/.test(taint);
}

/** @param {string} key @param {string} title @param {any} content */
function section(key, title, content) {
  return h('section', { key, 'aria-labelledby': `h-${key}` }, h('h2', { id: `h-${key}` }, title), content);
}
