export interface InstalledServer {
  readonly url: string;
  stop(): Promise<void>;
}

export function installedBinaries(): string | undefined;

/** @param settings `name=value`, as on the server's command line */
export function startInstalledServer(binaries: string, settings: readonly string[]): Promise<InstalledServer>;
