import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Finding, ReplicaMessage } from '../src/demo/messages.js';
import { freeze, type Frozen } from './freezer.js';

const PROGRAM = fileURLToPath(new URL('../src/main.js', import.meta.url));

export type ReplicaState = 'starting' | 'running' | 'frozen' | 'killed' | 'stopping' | 'ended';

/** One process of the application, and what may be done to it. */
export class Replica {
  state: ReplicaState = 'starting';
  /** It ended, and nobody wanted it to: what it said last. */
  unexpectedEnd: string | null = null;
  private readonly child: ChildProcess;
  private readonly ended: Promise<unknown>;
  private frozen: Frozen | null = null;
  private output = '';
  private failure: string | null = null;

  constructor(
    readonly name: string,
    env: NodeJS.ProcessEnv,
    onMessage: (replica: Replica, message: ReplicaMessage) => void,
    onEnd: (replica: Replica) => void,
  ) {
    this.child = fork(PROGRAM, [], {
      env: { ...process.env, ...env, REPLICA_NAME: name },
      execArgv: ['--enable-source-maps'],
      serialization: 'advanced',
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    });
    for (const stream of [this.child.stdout!, this.child.stderr!]) {
      stream.setEncoding('utf8').on('data', (text: string) => (this.output = (this.output + text).slice(-2_000)));
    }
    this.child.on('message', (message: ReplicaMessage) => {
      if (message.kind === 'failed') this.failure = message.message;
      if (message.kind === 'ready' && this.state === 'starting') this.state = 'running';
      onMessage(this, message);
    });
    this.ended = once(this.child, 'close').catch(() => {});
    void this.ended.then(() => {
      if (this.state !== 'killed' && this.state !== 'stopping') this.unexpectedEnd = this.lastWords();
      if (this.state !== 'killed') this.state = 'ended';
      onEnd(this);
    });
  }

  get pid(): number {
    return this.child.pid!;
  }

  tell(finding: Finding): void {
    if (this.child.connected) this.child.send(finding, () => {});
  }

  /** Nothing of it runs on, no cleaning up, no goodbye. */
  kill(): void {
    this.state = 'killed';
    this.child.kill('SIGKILL');
  }

  /** Stops the whole process where it stands, its threads too, as a paused virtual machine does. */
  freeze(): void {
    this.frozen = freeze(this.pid);
    this.state = 'frozen';
  }

  thaw(): void {
    this.frozen?.thaw();
    this.frozen = null;
    if (this.state === 'frozen') this.state = 'running';
  }

  /** Asks it to stop claiming, end what it runs and go; after `withinMs` it is killed. */
  async stop(withinMs: number): Promise<void> {
    this.thaw();
    if (this.isGone) return;
    this.state = 'stopping';
    this.child.kill('SIGTERM');
    const impatience = setTimeout(() => this.child.kill('SIGKILL'), withinMs);
    await this.ended;
    clearTimeout(impatience);
  }

  /** Gone when it resolves, frozen or not. */
  async destroy(): Promise<void> {
    if (!this.isGone) this.kill();
    this.thaw();
    await this.ended;
  }

  private get isGone(): boolean {
    return this.child.exitCode !== null || this.child.signalCode !== null;
  }

  private lastWords(): string {
    const { exitCode, signalCode } = this.child;
    const said = this.failure ?? this.output.trim().split('\n').slice(-5).join('\n');
    return said || (signalCode ? `it was ended by ${signalCode}` : `it exited with code ${exitCode}`);
  }
}
