// The queue of the scheduler.
// @ts-check
import { count } from './format.js';
import { h } from './dom.js';
import { mark, none, pages, table, tools } from './parts.js';

const STATES = /** @type {Record<string, 'Ok' | 'Waiting' | 'Broken'>} */ ({ Scheduling: 'Ok', Active: 'Waiting', Backoff: 'Broken', Unschedulable: 'Broken' });

/** @type {import('./app.js').Page} */
export const scheduling = {
  title: () => 'Scheduling',
  view: ({ search }) => `view=scheduling&${search}`,
  cli: () => 'ironclad get --raw /apis/explain.ironclad.io/v1alpha1/schedulingqueue',
  draw(view, context) {
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
  },
};
