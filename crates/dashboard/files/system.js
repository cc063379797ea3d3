// The leader, its controllers, and what the doctor finds.
// @ts-check
import { h } from './dom.js';
import { ago, count } from './format.js';
import { failure, mark, none, table } from './parts.js';

const GRADES = /** @type {Record<string, ['Ok' | 'Waiting' | 'Broken', string]>} */ ({
  Broken: ['Broken', 'broken'], Warning: ['Waiting', 'warning'], Note: ['Waiting', 'note'], Fine: ['Ok', 'fine'],
});

const OFF = /** @type {Record<string, string>} */ ({ SwitchedOff: 'left out by --controllers', GateOff: 'its gate is off', NotBuilt: 'not built yet' });

/** @type {import('./app.js').Page} */
export const system = {
  title: () => 'System',
  view: () => 'view=system',
  cli: () => 'ironclad doctor',
  draw(view, context) {
    const { configuration, leases } = view;
    const fact = (/** @type {string} */ title, /** @type {any} */ value) => [h('dt', null, title), h('dd', null, value || '–')];
    const gates = Object.entries(configuration?.gates ?? {}).filter(([, on]) => on).map(([name]) => name);
    const held = (leases ?? []).filter((/** @type {any} */ lease) => lease.holder);
    return [
      h('dl', { class: 'facts', key: 'facts' },
        fact('This program', view.program.version), fact('Control plane', view.plane),
        fact('Leaders', leases === null ? 'not known: you may not list leases in karmada-system'
          : held.map((/** @type {any} */ lease) => h('div', { key: lease.name }, lease.name, ': ', h('b', null, lease.holder), ' since ', ago(lease.since)))),
        fact('Gates that are on', gates.map((gate) => h('span', { class: 'tag' }, gate)))),
      h('section', { key: 'doctor', 'aria-labelledby': 'h-doctor' }, h('h2', { id: 'h-doctor' }, 'Findings of the doctor'), doctor(context)),
      h('section', { key: 'controllers', 'aria-labelledby': 'h-controllers' }, h('h2', { id: 'h-controllers' }, 'Controllers of the leader'),
        configuration?.controllers?.length ? table(null, 'Controllers of the leader', [
          { name: 'Controller', first: true, cell: (row) => row.name },
          { name: 'State', kind: 'tight', cell: (row) => (row.state === 'Running' ? mark('Ok', 'running') : h('span', { class: 'quiet' }, OFF[row.state] ?? row.state)) },
          { name: 'Gate', cell: (row) => row.gate ?? '–' },
        ], configuration.controllers) : none(`They are not known here: ${view.unknown ?? 'the leader tells none'}`, 'ironclad doctor')),
    ];
  },
};

/** @param {import('./app.js').Context} context */
function doctor(context) {
  const { value, failed, asked } = context.once('doctor', '/api/doctor');
  const again = h('p', null, h('button', { click: () => context.again('doctor'), disabled: asked }, 'Examine again'));
  if (failed) return [failure(failed), again];
  if (!value) return h('p', { class: 'quiet', role: 'status' }, 'Examining the fleet and its members …');
  const rows = [
    ...value.broken.map((/** @type {string} */ what) => ({ grade: 'Broken', what })),
    ...value.findings,
  ];
  return [
    h('p', { class: 'sum' }, value.broken.length ? h('b', null, `${count(value.broken.length, 'invariant')} broken`) : 'No invariant is broken', `: ${value.looked}`),
    rows.length ? table(null, 'Findings', [
      { name: 'Grade', kind: 'tight', cell: (row) => mark(...(GRADES[row.grade] ?? ['Waiting', row.grade])) },
      { name: 'Finding', kind: 'text', cell: (row) => row.what },
      { name: 'Try', kind: 'text', cell: (row) => (row.remedy ? h('code', null, row.remedy) : '–') },
    ], rows) : null,
    again,
  ];
}
