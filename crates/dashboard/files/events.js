// Events of the control plane, newest first.
// @ts-check
import { h } from './dom.js';
import { happened, none, pages, tools } from './parts.js';

/** @type {import('./app.js').Page} */
export const events = {
  title: () => 'Events',
  view: ({ search }) => `view=events&${search}`,
  cli: () => 'ironclad get events -A --sort-by .lastTimestamp',
  draw(view, context) {
    if (!view.total) return [none('There are no events: they are kept for an hour.', 'ironclad get events -A -w')];
    const filter = context.search.get('filter') ?? '';
    const only = 'type=warning';
    const is = filter.toLowerCase().split(/[ ,]+/).includes(only);
    const toggle = () => context.set({
      filter: is ? filter.split(/[ ,]+/).filter((term) => term.toLowerCase() !== only).join(' ') : `${filter} ${only}`.trim(), offset: '',
    });
    return [
      tools(context, view, 'namespace=shop, reason=…, text', h('label', null, h('input', { type: 'checkbox', checked: is, change: toggle }), 'Warnings only')),
      happened(context, 'Events', view.rows), pages(context, view),
    ];
  },
};
