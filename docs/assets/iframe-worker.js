/* Pages opened from disk may start no Worker, which the search needs: there an iframe stands for it. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.appendChild(frame)
      const inside = (this.inside = frame.contentWindow)
      window.addEventListener("message", event => {
        if (event.source !== inside) return
        const message = new MessageEvent("message", { data: event.data })
        this.dispatchEvent(message)
        if (this.onmessage) this.onmessage(message)
      })
      inside.document.open()
      inside.document.write("<html><body></body></html>")
      inside.document.close()
      inside.postMessage = data => window.dispatchEvent(new MessageEvent("message", { data, source: inside }))
      inside.importScripts = (...urls) => urls.reduce((before, one) => before.then(() => load(one)), Promise.resolve())
      const load = address =>
        new Promise((resolve, reject) => {
          const script = inside.document.createElement("script")
          script.src = address
          script.onload = resolve
          script.onerror = reject
          inside.document.body.appendChild(script)
        })
      this.ready = load(url)
    }
    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data: JSON.parse(JSON.stringify(data)) })))
    }
    terminate() {}
  }
}
