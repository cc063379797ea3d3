// What would happen: a form for each plan verb, and manifests that are planned for as they are written.
// @ts-check
import { h } from './dom.js';
import { count, quoted, span } from './format.js';
import { clusterLink, failure, mark, none, table } from './parts.js';
import { post } from './session.js';

/** @typedef {import('./app.js').Context} Context */

const STATUS = /** @type {Record<string, ['Ok' | 'Waiting' | 'Broken', string]>} */ ({
  Moved: ['Ok', 'moved'], MovedButKept: ['Waiting', 'moved, the old copy stays'], Returned: ['Ok', 'returned'],
  NotRunning: ['Broken', 'placed, but does not start'], Unschedulable: ['Broken', 'no cluster takes it'],
});

/** @param {number} seconds */
const after = (seconds) => span(seconds * 1000);

/**
 * A plan that is computed once, with its outcome.
 * @param {Context} context
 * @param {string} path
 */
export function outcome(context, path) {
  const { value, failed, asked } = context.once('plan', path);
  const again = h('button', { click: () => context.again('plan'), disabled: asked, key: 'again' }, 'Plan again');
  if (failed) return [failure(failed), again];
  if (!value) return [h('p', { class: 'quiet', role: 'status' }, 'Planning …')];
  if (value.text !== undefined) return [said(value), h('p', null, again)];
  const { moves, waits, peakRate, peakPerMinute, lasts, cutOff, quietBecause, nodesUnknown } = value.plan;
  const sum = moves.length
    ? [h('b', null, `${count(moves.length, 'eviction')} within ${after(lasts)}`), `, at most ${peakRate} per second in force, ${peakPerMinute} within one minute`]
    : [h('b', null, 'Nothing would move'), quietBecause ? `: ${quietBecause}` : null];
  return [
    h('p', { class: 'sum' }, sum, cutOff ? '; the fleet would still be changing at the horizon' : null),
    Object.entries(nodesUnknown ?? {}).map(([cluster, why]) => h('p', { class: 'quiet' }, `What fits into ${cluster} is by its summary: ${why}`)),
    moves.length ? table(null, 'Moves', [
      { name: 'Evicted after', kind: 'number', cell: (row) => after(row.evicted) },
      { name: 'Workload', first: true, cell: (row) => row.resource },
      { name: 'From', kind: 'tight', cell: (row) => clusterLink(row.from) },
      { name: 'Before and after', kind: 'tight', cell: (row) => ends(row) },
      { name: 'Outcome', cell: (row) => [mark(...(STATUS[row.status] ?? ['Waiting', row.status])), row.because ? h('span', { class: 'why' }, row.because) : null] },
      { name: 'Purge', cell: (row) => row.purgeMode },
      { name: 'Reason', kind: 'text', cell: (row) => row.reason },
    ], moves) : null,
    waits.length ? [h('h2', null, `${count(waits.length, 'eviction')} would not happen`), table(null, 'Evictions that would not happen', [
      { name: 'Workload', first: true, cell: (row) => row.resource },
      { name: 'Stays on', kind: 'tight', cell: (row) => clusterLink(row.from) },
      { name: 'State', cell: (row) => row.state },
      { name: 'Taints', cell: (row) => row.causes.join(', ') },
      { name: 'Reason', kind: 'text', cell: (row) => row.because },
    ], waits)] : null,
    h('p', null, again),
  ];
}

/** @param {any} row */
function ends(row) {
  const all = Object.entries(row.ends).map(([name, replicas]) => (replicas ? `${name}:${replicas}` : name));
  return `${row.from} → ${all.join(', ') || 'nowhere'}`;
}

/** Fields of a form: name in the address, label, example. @typedef {[string, string, string]} Field */

/** The plan verbs. @type {Record<string, {title: string, fields: Field[], how: string, words: (value: (name: string) => string) => string[]}>} */
const VERBS = {
  'cluster-loss': {
    title: 'Clusters are lost', fields: [['clusters', 'Clusters', 'member1 member2']],
    how: 'They become unreachable, all at once.', words: (value) => list(value('clusters')),
  },
  taint: {
    title: 'A cluster gets a taint', fields: [['clusters', 'Cluster', 'member1'], ['taint', 'Taint', 'maintenance:NoExecute']],
    how: 'The taint is KEY:EFFECT or KEY=VALUE:EFFECT.', words: (value) => [value('clusters'), value('taint')],
  },
  rate: {
    title: 'Evictions go at another rate', fields: [['rate', 'Per second', '5']],
    how: 'Nothing happens but what is under way: what the faulty clusters of now lose at this rate.', words: (value) => [value('rate')],
  },
  preemption: {
    title: 'A workload preempts others', fields: [['namespace', 'Namespace', 'default'], ['name', 'Workload or binding', 'payments']],
    how: 'Who would leave for it, and where to, as if it could preempt.', words: (value) => [value('name'), ...within(value)],
  },
  'priority-class': {
    title: 'The workloads of a class preempt others', fields: [['name', 'PriorityClass', 'critical']],
    how: 'Who would leave for those that have no place, each by itself.', words: (value) => [value('name')],
  },
  load: {
    title: 'An autoscaled workload has another load', fields: [['namespace', 'Namespace', 'default'], ['name', 'FederatedHPA', 'web'], ['multiply', 'Times', '3']],
    how: 'Its replicas over time, for ten minutes of that load and what follows.',
    words: (value) => [value('name') && `fhpa/${value('name')}`, ...within(value), ...(value('multiply') ? ['--multiply', value('multiply')] : [''])],
  },
  apply: {
    title: 'Manifests are applied', fields: [['namespace', 'Namespace', 'default']],
    how: 'Policies, overrides, templates: which policy has each template then, where its copies would be and why. Admission is asked by a dry run.',
    words: (value) => ['-f', 'FILE', ...within(value)],
  },
};
/** Time without a key after which manifests are planned for. */
const TYPED = 700;

/** @param {string} text */
const list = (text) => text.split(/[ ,]+/).filter(Boolean);
/** @param {(name: string) => string} value */
const within = (value) => (value('namespace') ? ['-n', value('namespace')] : []);

/** @param {Context} context */
function asked({ search }) {
  const value = (/** @type {string} */ name) => search.get(name) ?? '';
  const named = value('verb') || (value('taint') ? 'taint' : 'cluster-loss');
  return { verb: Object.hasOwn(VERBS, named) ? named : 'cluster-loss', value };
}

/** The query of a plan; null while something is missing. @param {Context} context */
function query(context) {
  const { verb, value } = asked(context);
  const { fields } = VERBS[verb];
  if (fields.some(([name]) => name !== 'namespace' && !value(name))) return null;
  const pairs = fields.flatMap(([name]) => (name === 'clusters' ? list(value(name)).map((one) => ['cluster', one]) : [[name, value(name)]]));
  return new URLSearchParams([['verb', verb], ...pairs.filter(([, text]) => text)]);
}

/** Manifests that are written here, with the plan for them. @param {Context} context */
function editor(context) {
  const { value } = asked(context);
  const { memory } = context;
  const run = async () => {
    clearTimeout(memory.timer);
    const turn = memory.turn = (memory.turn ?? 0) + 1;
    memory.planning = true;
    context.draw();
    const found = await post('/plan/apply', { manifests: memory.text ?? '', namespace: value('namespace') });
    // What was typed since has an answer of its own.
    if (turn !== memory.turn) return;
    Object.assign(memory, { planning: false, found: found.value?.failed ? found.value : found });
    context.draw();
  };
  const write = (/** @type {string} */ text) => {
    clearTimeout(memory.timer);
    Object.assign(memory, { text, turn: (memory.turn ?? 0) + 1, planning: false });
    if (text.trim()) memory.timer = setTimeout(() => void run(), TYPED);
    else memory.found = null;
  };
  const of = `${value('kind')} ${value('namespace')}/${value('name')}`;
  let reading = null;
  if (value('kind') && memory.of !== of) {
    const present = context.once('manifest', `/api/manifests?${new URLSearchParams({ kind: value('kind'), namespace: value('namespace'), name: value('name') })}`);
    reading = present.failed ? failure(present.failed) : h('p', { class: 'quiet', role: 'status', key: 'reading' }, 'Reading what is there …');
    if (present.value && !present.asked) {
      memory.of = of;
      reading = null;
      write(present.value.lines.map((/** @type {any} */ line) => `${line.text}\n`).join(''));
    }
  }
  const { found } = memory;
  const submit = (/** @type {any} */ event) => {
    event.preventDefault();
    void run();
  };
  return [
    reading,
    h('form', { class: 'tools', submit, key: 'editor' },
      h('label', { class: 'whole' }, 'Manifests', h('textarea', {
        name: 'manifests', value: memory.text ?? '', spellcheck: 'false', autocomplete: 'off', required: true,
        input: (/** @type {any} */ event) => { write(event.target.value); context.draw(); },
      })),
      h('button', { type: 'submit' }, 'Plan')),
    h('p', { class: 'quiet', key: 'kept' }, 'It is planned for as you type, and stays in this page. To apply it, save it and use ', h('code', null, 'kubectl apply -f FILE'), '.'),
    h('section', { key: 'outcome', 'aria-label': 'Outcome' },
      memory.planning ? h('p', { class: 'quiet', role: 'status', key: 'planning' }, 'Planning …') : null,
      found?.failed ? failure(found.failed) : null,
      found?.value ? said(found.value) : null),
  ];
}

/** What a verb printed. @param {any} value */
function said(value) {
  return [
    h('p', { class: 'sum', key: 'sum' }, value.changes ? h('b', null, 'Something would change') : 'Nothing would change'),
    h('pre', { key: 'said', tabindex: '0', role: 'region', 'aria-label': 'Plan' }, value.text),
  ];
}

/** @type {import('./app.js').Page} */
export const plan = {
  title: () => 'Plan',
  view: () => null,
  cli: (context) => {
    const { verb, value } = asked(context);
    const { fields, words } = VERBS[verb];
    const given = words(value);
    const shown = given.length && given.every(Boolean) ? given.map(quoted) : fields.map(([, label]) => label.toUpperCase().replaceAll(' ', '-'));
    return ['ironclad plan', verb, ...shown].join(' ');
  },
  draw(_, context) {
    const { verb, value } = asked(context);
    const { fields, how } = VERBS[verb];
    const submit = (/** @type {any} */ event) => {
      event.preventDefault();
      context.set({ verb, ...Object.fromEntries(fields.map(([name]) => [name, event.target.elements[name].value.trim()])) });
      context.again('plan');
    };
    const choose = h('label', { key: 'verb' }, 'What happens', h('select', {
      name: 'verb', change: (/** @type {any} */ event) => context.set({ verb: event.target.value, kind: '' }),
    }, Object.entries(VERBS).map(([name, { title }]) => h('option', { value: name, selected: verb === name }, title))));
    const inputs = fields.map(([name, label, example]) => h('label', { key: `${verb} ${name}` }, label, h('input', {
      type: 'text', name, value: value(name), placeholder: example, autocomplete: 'off', required: name !== 'namespace',
    })));
    const complete = query(context);
    return [
      h('form', { class: 'tools', submit, key: 'form' }, choose, inputs, verb === 'apply' ? null : h('button', { type: 'submit', key: 'go' }, 'Plan')),
      h('p', { class: 'quiet', key: 'how' }, `${how} The real decisions over a copy of the fleet, in virtual time. Nothing is written.`),
      verb === 'apply' ? editor(context)
        : complete ? h('section', { key: 'outcome', 'aria-label': 'Outcome' }, outcome(context, `/api/plan?${complete}`))
          : none('Say what would happen to see what follows.', `ironclad plan ${verb} --help`),
    ];
  },
};
