// The bindings, with those that are not healthy first.
// @ts-check
import { h } from './dom.js';
import { count } from './format.js';
import { bindings, hidden, none, notes, pages, tools } from './parts.js';

/** @type {import('./app.js').Page} */
export const workloads = {
  title: () => 'Workloads',
  view: ({ search }) => `view=workloads&${search}`,
  cli: () => 'ironclad get rb -A -o wide',
  draw(view, context) {
    if (!view.total) return [notes(view.notes), hidden(view) ? null : none('No template is bound to clusters: a policy selects none yet.', 'ironclad apply -f web.yaml --all-clusters')];
    const { Ok = 0, Waiting = 0, Broken = 0 } = view.sums;
    return [
      h('p', { class: 'sum', key: 'sum' }, h('b', null, count(view.total, 'binding')), `: ${Ok} healthy, ${Waiting} waiting, `,
        Broken ? h('b', null, `${Broken} broken`) : '0 broken'),
      notes(view.notes), tools(context, view, 'state=Broken, clusters=member1, text'),
      bindings(context, 'Workloads', view.rows), pages(context, view),
    ];
  },
};
