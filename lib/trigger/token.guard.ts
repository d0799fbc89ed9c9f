import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { Inject, Injectable, UnauthorizedException, type CanActivate, type ExecutionContext } from '@nestjs/common';

/** The tokens that are good. */
export const TRIGGER_TOKENS = Symbol('TRIGGER_TOKENS');

/** Of what a request and a response have in Express and in Fastify alike. */
interface Request {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}
interface Response {
  header(name: string, value: string): unknown;
}

/** Lets in who brings a token. How long that takes says nothing about any of them. */
@Injectable()
export class TokenGuard implements CanActivate {
  private readonly key = randomBytes(32);
  private readonly digests: readonly Buffer[];

  constructor(@Inject(TRIGGER_TOKENS) tokens: readonly string[]) {
    this.digests = tokens.map((token) => this.digest(token));
  }

  canActivate(context: ExecutionContext): boolean {
    // None is asked for: a guard of the application's is.
    if (this.digests.length === 0) return true;
    const http = context.switchToHttp();
    const { authorization } = http.getRequest<Request>().headers;
    const [, token = ''] = typeof authorization === 'string' ? (/^Bearer +(\S+) *$/i.exec(authorization) ?? []) : [];
    if (this.isGood(token)) return true;
    http.getResponse<Response>().header('WWW-Authenticate', 'Bearer');
    throw new UnauthorizedException('A token is needed, as "Authorization: Bearer …".');
  }

  /** All are compared, also after one that fits; digests have one length, whatever was given. */
  private isGood(token: string): boolean {
    const given = this.digest(token);
    return this.digests.map((digest) => timingSafeEqual(digest, given)).includes(true);
  }

  private digest(token: string): Buffer {
    return createHmac('sha256', this.key).update(token).digest();
  }
}
