#!/usr/bin/env node
// Runs cron-corpus.jsonl against a module that exports
//     nextFireTimes(expr, tz, fromISO, n)  ->  Array<Date | ISO string | epoch ms>   (may be async)
// Contract: strictly after fromISO, ascending, at most n; throws for an invalid expression or zone;
// returns fewer (or []) or throws when no (more) dates exist.
// Optional exports, checked when present:
//     fireTimesBetween(expr, tz, fromISO, toISO)  ->  every instant in (from, to]
//     prevFireTime(expr, tz, beforeISO)           ->  latest instant strictly before, or null
//
//   node corpus-run.mjs ./corpus-adapter.mjs [--corpus FILE] [--kind a,b] [--level core,choice,ext] [--id x,y]
//        [--host-tz UTC,Australia/Lord_Howe,America/New_York] [--timeout 4000] [--no-props] [--verbose] [--json OUT]
//
// Exit status: 0 when no case fails, none is unsupported and no property is broken, else 1. A choice or ext case may
// match one of its known variants; which ones are taken is printed.
import { fork } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const SELF = fileURLToPath(import.meta.url);

// ------------------------------------------------------------------ child: one engine call at a time
if (process.argv[2] === '--child') {
  let mod;
  const load = (async () => {
    mod = await import(pathToFileURL(process.argv[3]).href);
    if (!mod.nextFireTimes && mod.default?.nextFireTimes) mod = mod.default;
    if (typeof mod.nextFireTimes !== 'function') throw new Error('module exports no nextFireTimes(expr, tz, fromISO, n)');
  })();
  const norm = (v) => {
    const d = v instanceof Date ? v : new Date(typeof v === 'number' ? v : typeof v === 'string' ? v : NaN);
    if (Number.isNaN(d.getTime())) throw new Error('RETURNED A NON-DATE: ' + String(v));
    return d.toISOString();
  };
  load.then(
    () => process.send({ ready: true, has: { between: typeof mod.fireTimesBetween === 'function', prev: typeof mod.prevFireTime === 'function' } }),
    (e) => process.send({ fatal: String(e && e.message) }),
  );
  process.on('message', async ({ seq, fn, args }) => {
    let out, err;
    try { out = await mod[fn](...args); } catch (e) { err = String((e && e.message) || e); }
    if (err === undefined) {
      try {
        if (fn === 'prevFireTime') out = out == null ? null : norm(out);
        else {
          if (!Array.isArray(out)) throw new Error('RETURNED NO ARRAY');
          out = out.map(norm);
        }
      } catch (e) { return process.send({ seq, broken: e.message }); }
      return process.send({ seq, out });
    }
    process.send({ seq, err });
  });
  process.on('disconnect', () => process.exit(0));
}

// ------------------------------------------------------------------ parent
function options(argv) {
  const o = { corpus: resolve(dirname(SELF), 'cron-corpus.jsonl'), hostTz: ['UTC', 'Australia/Lord_Howe', 'America/New_York'], timeout: 4000, props: true };
  const rest = [];
  for (let i = 0; i < argv.length; i++) {
    const a = argv[i];
    if (a === '--corpus') o.corpus = resolve(argv[++i]);
    else if (a === '--kind') o.kind = argv[++i].split(',');
    else if (a === '--level') o.level = argv[++i].split(',');
    else if (a === '--id') o.id = argv[++i].split(',');
    else if (a === '--host-tz') o.hostTz = argv[++i].split(',');
    else if (a === '--timeout') o.timeout = Number(argv[++i]);
    else if (a === '--no-props') o.props = false;
    else if (a === '--verbose') o.verbose = true;
    else if (a === '--json') o.json = argv[++i];
    else rest.push(a);
  }
  if (!rest[0]) { console.error('usage: node corpus-run.mjs MODULE [options]  (see the head of this file)'); process.exit(2); }
  o.module = resolve(rest[0]);
  return o;
}

class Engine {
  constructor(module, tz, timeout) { Object.assign(this, { module, tz, timeout, seq: 0, hangs: 0 }); }
  async start() {
    this.child = fork(SELF, ['--child', this.module], { env: { ...process.env, TZ: this.tz }, execArgv: ['--max-old-space-size=512'], stdio: ['ignore', 'ignore', 'pipe', 'ipc'] });
    this.child.stderr.on('data', (d) => { this.stderr = ((this.stderr || '') + d).slice(-2000); });
    const first = await this.wait((m) => m.ready || m.fatal, 20000);
    if (!first || first.fatal) throw new Error('cannot load module: ' + (first?.fatal || this.stderr || 'no answer'));
    this.has = first.has;
  }
  wait(match, ms) {
    return new Promise((done) => {
      const c = this.child;
      const end = (v) => { clearTimeout(t); c.off('message', on); c.off('exit', gone); done(v); };
      const on = (m) => { if (match(m)) end(m); };
      const gone = () => end({ died: true });
      const t = setTimeout(() => end(null), ms);
      c.on('message', on); c.on('exit', gone);
    });
  }
  async call(fn, ...args) {
    if (!this.child) await this.start();
    const seq = ++this.seq;
    this.child.send({ seq, fn, args });
    const m = await this.wait((x) => x.seq === seq, this.timeout);
    if (m && !m.died) return m;
    this.hangs++;
    if (!m) this.child.kill('SIGKILL'); // only the child forked above
    this.child = null;
    return { hang: m ? 'process died' : `no answer in ${this.timeout} ms` };
  }
  stop() { if (this.child?.connected) this.child.disconnect(); this.child = null; }
}

const ms = (s) => new Date(s).getTime();
const iso = (t) => new Date(t).toISOString();
const same = (a, b) => a.length === b.length && a.every((x, i) => ms(x) === ms(b[i]));
const brief = (a) => (a.length > 5 ? [...a.slice(0, 5), '…'] : a).map((x) => String(x).replace('.000Z', 'Z')).join(' ');

function judge(c, m) {
  if (m.hang) return { verdict: 'fail', got: 'HANG: ' + m.hang };
  if (m.broken) return { verdict: 'fail', got: m.broken };
  if (c.invalid) {
    if (m.err !== undefined) return { verdict: 'pass' };
    const got = 'accepted: ' + brief(m.out);
    if (c.level === 'choice') return { verdict: 'variant', name: 'accept', got };
    if (c.level === 'ext') return { verdict: 'variant', name: 'accept', got };
    return { verdict: 'fail', got };
  }
  if (c.impossible) {
    if (m.err !== undefined || m.out.length === 0) return { verdict: 'pass' };
    return { verdict: 'fail', got: brief(m.out) };
  }
  if (m.err !== undefined) {
    if (c.mayReject) return { verdict: 'variant', name: 'reject', got: 'throws: ' + m.err };
    if (c.level === 'ext') return { verdict: 'unsupported', got: 'throws: ' + m.err };
    return { verdict: 'fail', got: 'throws: ' + m.err };
  }
  if (same(m.out, c.next)) return { verdict: 'pass' };
  for (const [name, v] of Object.entries(c.variants || {})) if (same(m.out, v)) return { verdict: 'variant', name: name.split(':')[0], got: brief(m.out) };
  return { verdict: 'fail', got: brief(m.out) };
}

async function properties(c, eng, others, base) {
  const bad = [];
  const out = base.out, t = out.map(ms), f = ms(c.from);
  if (t.length && t[0] <= f) bad.push(['after-from', `${out[0]} is not after ${c.from}`]);
  for (let i = 1; i < t.length; i++) if (t[i] <= t[i - 1]) { bad.push(['ascending', `${out[i - 1]} then ${out[i]}`]); break; }
  if (t.some((x) => x % 1000)) bad.push(['whole-second', brief(out)]);
  if (bad.length || !t.length) return bad;
  const ask = async (label, from, n, want) => {
    const m = await eng.call('nextFireTimes', c.expr, c.tz, iso(from), n);
    const got = m.out ? brief(m.out) : 'throws/hangs: ' + (m.err || m.hang || m.broken);
    if (!m.out || !same(m.out, want)) bad.push([label, `from ${iso(from)} expected ${brief(want)} got ${got}`]);
  };
  // the set of fire times depends on (expr, tz) only, never on where one starts to look
  for (let i = 0; i < Math.min(t.length - 1, 3); i++) await ask('chain', t[i], t.length - 1 - i, out.slice(i + 1));
  for (let i = 0; i < Math.min(t.length, 3); i++) {
    const prev = i ? t[i - 1] : f;
    if (t[i] - 1 > prev) await ask('just-before', t[i] - 1, 1, [out[i]]);
    const mid = Math.floor((prev + t[i]) / 2);
    if (mid > prev && mid < t[i]) await ask('midway', mid, 1, [out[i]]);
  }
  if (eng.has.between) {
    const m = await eng.call('fireTimesBetween', c.expr, c.tz, c.from, out.at(-1));
    if (!m.out || !same(m.out, out)) bad.push(['between', m.out ? brief(m.out) : m.err || m.hang || m.broken]);
  }
  if (eng.has.prev) for (let i = 0; i < Math.min(t.length, 3); i++) {
    const m = await eng.call('prevFireTime', c.expr, c.tz, iso(t[i] + 1));
    if (!m.out || ms(m.out) !== t[i]) bad.push(['prev', `before ${iso(t[i] + 1)} expected ${out[i]} got ${m.out ?? m.err ?? m.hang ?? m.broken ?? 'null'}`]);
  }
  for (const e of others) {
    const m = await e.call('nextFireTimes', c.expr, c.tz, c.from, t.length);
    if (!m.out || !same(m.out, out)) bad.push(['host-zone', `under TZ=${e.tz} got ${m.out ? brief(m.out) : m.err || m.hang || m.broken}, under TZ=${eng.tz} ${brief(out)}`]);
  }
  return bad;
}

async function main() {
  const o = options(process.argv.slice(2));
  let cases = readFileSync(o.corpus, 'utf8').split('\n').filter((l) => l.trim()).map((l) => JSON.parse(l));
  if (o.kind) cases = cases.filter((c) => o.kind.includes(c.kind));
  if (o.level) cases = cases.filter((c) => o.level.includes(c.level));
  if (o.id) cases = cases.filter((c) => o.id.includes(c.id));
  const eng = new Engine(o.module, o.hostTz[0], o.timeout);
  const others = o.props ? o.hostTz.slice(1).map((z) => new Engine(o.module, z, o.timeout)) : [];
  try { await eng.start(); for (const e of others) await e.start(); } catch (e) { console.error(e.message); process.exit(2); }
  const results = [];
  for (const c of cases) {
    const from = c.from || '2025-01-01T00:00:00Z', n = c.next?.length || 3;
    const t0 = performance.now();
    const m = await eng.call('nextFireTimes', c.expr, c.tz || 'UTC', from, n);
    const took = Math.round(performance.now() - t0);
    const r = { id: c.id, kind: c.kind, level: c.level, expr: c.expr, tz: c.tz, from: c.from, ...judge(c, m) };
    r.ms = took;
    if (m.out) r.out = m.out.map((x) => x.replace('.000Z', 'Z'));
    if (m.err !== undefined) r.err = m.err;
    r.broken = o.props && !c.invalid && !c.impossible && m.out ? await properties(c, eng, others, m) : [];
    results.push(r);
  }
  eng.stop(); others.forEach((e) => e.stop());

  const V = ['pass', 'variant', 'unsupported', 'fail'];
  const table = (key) => {
    const rows = {};
    for (const r of results) { const k = key(r); rows[k] ||= { total: 0, pass: 0, variant: 0, unsupported: 0, fail: 0, props: 0 }; rows[k].total++; rows[k][r.verdict]++; if (r.broken.length) rows[k].props++; }
    const w = Math.max(8, ...Object.keys(rows).map((k) => k.length));
    console.log(`${''.padEnd(w)}  total   pass  variant  unsupported   fail  breaks-a-property`);
    for (const k of Object.keys(rows).sort()) console.log(`${k.padEnd(w)}  ${String(rows[k].total).padStart(5)}  ${String(rows[k].pass).padStart(5)}  ${String(rows[k].variant).padStart(7)}  ${String(rows[k].unsupported).padStart(11)}  ${String(rows[k].fail).padStart(5)}  ${String(rows[k].props).padStart(17)}`);
  };
  const byId = new Map(cases.map((c) => [c.id, c]));
  const show = (r) => {
    const c = byId.get(r.id);
    console.log(`  ${r.id} [${r.level}] '${c.expr}' ${c.tz || ''} ${c.from ? 'from ' + c.from : ''}`);
    if (c.next?.length) console.log(`      expected ${brief(c.next)}`);
    if (r.got) console.log(`      got      ${r.got}${r.name ? '   (' + r.name + ')' : ''}`);
    if (c.note) console.log(`      note     ${c.note}`);
  };
  const part = (title, list, f = show) => { if (list.length) { console.log(`\n== ${title}: ${list.length}`); list.forEach(f); } };
  part('core failures', results.filter((r) => r.level === 'core' && r.verdict === 'fail'));
  part('choice cases matching no known variant', results.filter((r) => r.level === 'choice' && r.verdict === 'fail'));
  part('extension cases answered wrongly', results.filter((r) => r.level === 'ext' && r.verdict === 'fail'));
  if (o.verbose) { part('variants', results.filter((r) => r.verdict === 'variant')); part('unsupported', results.filter((r) => r.verdict === 'unsupported')); }
  part('properties broken', results.filter((r) => r.broken.length), (r) => { console.log(`  ${r.id} [${r.level}] '${r.expr}' ${r.tz} from ${r.from}`); for (const [k, d] of r.broken.slice(0, o.verbose ? 99 : 2)) console.log(`      ${k}: ${d}`); });
  const names = {};
  for (const r of results) if (r.verdict === 'variant') names[r.name] = (names[r.name] || 0) + 1;
  console.log('\n== by kind'); table((r) => r.kind);
  console.log('\n== by level'); table((r) => r.level);
  if (Object.keys(names).length) console.log('\n== variants taken: ' + Object.entries(names).map(([k, v]) => `${k} ${v}`).join(', '));
  const slow = results.filter((r) => r.ms > 250).sort((a, b) => b.ms - a.ms);
  if (slow.length) console.log(`\n== slower than 250 ms: ${slow.length} (${slow.slice(0, 5).map((r) => `${r.id} '${r.expr}' ${r.ms} ms`).join('; ')})`);
  const failed = results.filter((r) => r.verdict === 'fail').length;
  const unsupported = results.filter((r) => r.verdict === 'unsupported').length;
  const props = results.filter((r) => r.broken.length).length;
  console.log(`\nTOTAL ${results.length}: failures ${failed}, unsupported ${unsupported}, cases breaking a property ${props}, hangs ${eng.hangs + others.reduce((a, e) => a + e.hangs, 0)}`);
  if (o.json) writeFileSync(o.json, results.map((r) => JSON.stringify(r)).join('\n') + '\n');
  process.exitCode = failed || unsupported || props ? 1 : 0;
}

if (process.argv[2] !== '--child') await main();
